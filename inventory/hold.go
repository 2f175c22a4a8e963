package inventory

import "time"

// State is what has become of a hold. The numbers are stored, so they never change.
type State int

// The states of a hold.
const (
	Held      State = 1 // its units are set aside until it expires
	Confirmed State = 2 // its units are sold
	Released  State = 3 // given back before it was confirmed
	Refused   State = 4 // there was not enough, so nothing was ever set aside
	Lapsed    State = 5 // it expired, and when it was to be confirmed there was not enough left
	Expired   State = 6 // read from a hold whose time is over; never stored: a confirm may still succeed
)

func (s State) String() string {
	switch s {
	case Held:
		return "held"
	case Confirmed:
		return "confirmed"
	case Released:
		return "released"
	case Refused:
		return "refused"
	case Lapsed:
		return "lapsed"
	case Expired:
		return "expired"
	default:
		return "invalid"
	}
}

// Hold is what an id stands for.
type Hold struct {
	ID        string
	Items     Items         // what was asked for
	Sold      Items         // what was confirmed; less than Items after ConfirmPart
	State     State         // at the moment of the answer, by the store's clock
	ExpiresIn time.Duration // until a Held one expires
	Replayed  bool          // the answer was given before, and nothing changed now
}

// Part is some units of a hold and the bucket that they came from.
type Part struct {
	BucketID
	Quantity int64
}

// Record is a hold as a store keeps it.
type Record struct {
	ID       string
	Items    Items
	State    State  // never Expired
	Parts    []Part // where the units are; of a Confirmed one, what was sold
	Expires  int64  // the second, in Unix time by the store's clock, from which a Held one is expired
	Short    SoldOut
	Reserved time.Time // by the store's clock
	Log      []Entry   // what happened since, oldest first
}

// sold adds up what a confirmed hold has sold.
func (r *Record) sold() Items {
	if r.State != Confirmed {
		return nil
	}
	items := Items{}
	for _, p := range r.Parts {
		items[p.SKU] += p.Quantity
	}
	return items
}

// clone returns a copy that can be changed. Items are never changed.
func (r *Record) clone() *Record {
	c := *r
	c.Parts = append([]Part(nil), r.Parts...)
	c.Log = append([]Entry(nil), r.Log...)
	return &c
}

// Hold is what a caller sees of the record at a moment of the store's clock.
func (r *Record) Hold(now time.Time) Hold {
	h := Hold{ID: r.ID, Items: r.Items, Sold: r.sold(), State: r.State}
	if r.State != Held {
		return h
	}
	h.ExpiresIn = time.Unix(r.Expires, 0).Sub(now)
	if h.ExpiresIn <= 0 {
		h.State, h.ExpiresIn = Expired, 0
	}
	return h
}

// Entry is one line of a hold's history.
type Entry struct {
	What  string    // reserved, refused, confirmed, released, lapsed, extended, expired
	Items Items     // the units that it was about
	At    time.Time // by the store's clock
	Times int       // how often in a row, for extended; the last one counts
}

// note adds a line to the history. Extensions in a row share one, so a history stays short.
func (r *Record) note(what string, items Items, at time.Time) {
	if n := len(r.Log); n > 0 && r.Log[n-1].What == what {
		r.Log[n-1].At = at
		r.Log[n-1].Times++
		return
	}
	r.Log = append(r.Log, Entry{What: what, Items: items, At: at, Times: 1})
}

// History is what happened to the hold, oldest first, seen at a moment of the store's clock.
func (r *Record) History(now time.Time) []Entry {
	first := Entry{What: "reserved", Items: r.Items, At: r.Reserved, Times: 1}
	if r.State == Refused {
		first.What = "refused"
	}
	all := append([]Entry{first}, r.Log...)
	if r.State == Held && r.Expires <= now.Unix() {
		all = append(all, Entry{What: "expired", Items: r.Items, At: time.Unix(r.Expires, 0), Times: 1})
	}
	return all
}
