package history

// Limit makes a Recorder full after n operations.
func (r *Recorder[In, Out]) Limit(n int) { r.max = n }
