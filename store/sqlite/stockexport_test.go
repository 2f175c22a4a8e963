package sqlite

// named returns the statement of stock with a name, or nil.
func (s *stockStatements) named(name string) *statement {
	for _, st := range []*statement{
		&s.quick, &s.hold, &s.known, &s.buckets, &s.add, &s.change, &s.make, &s.level, &s.free, &s.moveIn, &s.moveOut, &s.empty,
		&s.delivered, &s.deliver, &s.levels, &s.history, &s.oldHolds, &s.forgetHolds, &s.fold,
		&s.oldDeliveries, &s.forgetDeliver, &s.overdue, &s.unsplit, &s.unexpire, &s.expiring, &s.repart,
		&s.auditLevels, &s.auditHeld, &s.auditSold, &s.auditDelivered,
	} {
		if st.name == name {
			return st
		}
	}
	return nil
}

// Waiting is how many callers wait for their turn at the writer now.
func (s *Store) Waiting() int { return int(s.turn.waiting.Load()) }
