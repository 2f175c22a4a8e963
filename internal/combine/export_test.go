package combine

import "context"

// Hook makes the Combiner call hook at its points: arrive, leave and land on a caller's goroutine, with its
// context; yield and board on a batch's, with the context of whoever queues longest. Call it before Do.
func (c *Combiner[Op, Out]) Hook(hook func(ctx context.Context, point string)) { c.hook = hook }

// Kept says what the Combiner keeps: groups, empty ones, and for how many the table has had room.
func (c *Combiner[Op, Out]) Kept() (groups, spares, peak int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups), len(c.spares), c.peak
}

// The bounds on what is kept.
const (
	SparesMax = sparesMax
	TableMax  = tableMax
)
