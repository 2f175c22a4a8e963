package lab

// A Report is what "fifty lab --json" prints. Its names and meanings only ever grow.
type Report struct {
	Seed      int64         `json:"seed"`     // replays the same order
	Hosts     int           `json:"hosts"`    // as asked for; a scenario may have a use for fewer
	Database  string        `json:"database"` // without password
	OK        bool          `json:"ok"`       // every naive run showed its fault, and no Fifty run did
	Scenarios []Performance `json:"scenarios"`
}

// A Performance is a scenario as it was played.
type Performance struct {
	Number int      `json:"number"` // of the catalogue
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Show   bool     `json:"show,omitempty"` // it is no failure of the catalogue, and its number is 0
	Wrong  string   `json:"wrong"`          // what goes wrong; of a show, what there is to see
	Fix    string   `json:"fix"`            // what prevents it; a show has none
	OK     bool     `json:"ok"`
	Runs   []Played `json:"runs"`
}

// Played is a run as it went.
type Played struct {
	Kind    Kind           `json:"kind"` // naive, fifty or by hand
	Title   string         `json:"title"`
	Lanes   []string       `json:"lanes"`           // the processes: "host 1", …, then clients
	Events  []Event        `json:"events"`          // in the order in which they were heard of
	Ticks   []Tick         `json:"ticks,omitempty"` // of a sale: the numbers as they went
	Fault   bool           `json:"fault"`           // it showed
	OK      bool           `json:"ok"`              // as it must be: the fault in a naive run, none in one of Fifty
	Verdict string         `json:"verdict"`
	Figures map[string]int `json:"figures"` // what the database counted
	TookMS  float64        `json:"took_ms"`
}

// An Event is a line of the timeline.
type Event struct {
	AtMS float64 `json:"at_ms"` // milliseconds since the run began, by the conductor's clock
	Host string  `json:"host"`  // a lane; "" is the narrator
	Step
}

// A Tick is how a sale stands at a moment. The numbers are of all hosts together, read one host after the other.
type Tick struct {
	AtMS    float64 `json:"at_ms"`   // milliseconds since the run began, by the conductor's clock
	Tried   int     `json:"tried"`   // buyers who have asked
	Sold    int     `json:"sold"`    // buyers who were given a ticket
	Refused int     `json:"refused"` // buyers who were told that there is none left
	Left    int     `json:"left"`    // tickets that nobody has and nobody holds, by the database
}

// A Watcher sees a session as it goes. Its methods are called one at a time.
type Watcher interface {
	// Session begins; r has no scenarios yet.
	Session(r Report)
	Scenario(p Performance)
	Run(p Played)
	Event(e Event)
	// Tick is a look at the numbers of a sale, some times in a second.
	Tick(t Tick)
	// Progress is what is being waited for, for people who look on; it is shown until the next call.
	Progress(text string)
	Verdict(p Played)
	// Broken says that there will be no verdict, and nothing else.
	Broken()
	End(r Report)
}

// Silent is a Watcher that shows nothing.
type Silent struct{}

// Session shows nothing.
func (Silent) Session(Report) {}

// Scenario shows nothing.
func (Silent) Scenario(Performance) {}

// Run shows nothing.
func (Silent) Run(Played) {}

// Event shows nothing.
func (Silent) Event(Event) {}

// Tick shows nothing.
func (Silent) Tick(Tick) {}

// Progress shows nothing.
func (Silent) Progress(string) {}

// Verdict shows nothing.
func (Silent) Verdict(Played) {}

// Broken shows nothing.
func (Silent) Broken() {}

// End shows nothing.
func (Silent) End(Report) {}
