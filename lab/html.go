package lab

import "io"

// WriteHTML writes a report as one page that needs nothing else.
func WriteHTML(w io.Writer, r Report) error { return nil }
