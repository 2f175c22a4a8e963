package postgres

import "context"

// Check returns a sentence for each setting of the server under which an acknowledged answer can be lost,
// or nothing can be written. It changes nothing. A program calls it at its start and logs what it says.
func (s *Store[Tx]) Check(ctx context.Context) (warnings []string, err error) {
	var synchronousCommit, fsync, fullPageWrites string
	var standby, readOnly bool
	settings := s.statements.settings.with().into(&synchronousCommit, &fsync, &fullPageWrites, &standby, &readOnly)
	err = s.run(ctx, settings)
	if err != nil {
		return nil, err
	}
	if synchronousCommit == "off" {
		warnings = append(warnings, "synchronous_commit is off: a crash of the server loses the newest answers, and their requests run again; turn it on for this role or database")
	}
	if fsync == "off" {
		warnings = append(warnings, "fsync is off: a crash of the server's host can lose or damage everything")
	}
	if fullPageWrites == "off" {
		warnings = append(warnings, "full_page_writes is off: a crash of the server's host can damage the tables")
	}
	switch {
	case standby:
		warnings = append(warnings, "the server is a standby, which takes no writes; connect to the primary (target_session_attrs=read-write)")
	case readOnly:
		warnings = append(warnings, "default_transaction_read_only is on: nothing can be claimed; turn it off for this role or database")
	}
	return warnings, nil
}
