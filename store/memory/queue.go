package memory

import "slices"

// chunkTurns is how many turns stand in one piece of memory.
const chunkTurns = 512

// queue is the records that a sweep will come to, in the order in which their time begins. It is in chunks, so
// that millions are never copied to make room for one more; none of them is empty.
type queue struct{ chunks [][]turn }

// add puts t in its place, nearly always the last.
func (q *queue) add(t turn) {
	at := len(q.chunks) - 1
	for at > 0 && q.chunks[at][0].at > t.at {
		at--
	}
	if at < 0 {
		q.chunks = append(q.chunks, newChunk(t))
		return
	}
	chunk := q.chunks[at]
	i := len(chunk)
	for i > 0 && chunk[i-1].at > t.at {
		i--
	}
	if i == len(chunk) && i >= chunkTurns {
		q.chunks = slices.Insert(q.chunks, at+1, newChunk(t))
		return
	}
	q.chunks[at] = slices.Insert(chunk, i, t)
}

func newChunk(t turn) []turn { return append(make([]turn, 0, chunkTurns), t) }

// first is the turn that comes next.
func (q *queue) first() (t turn, ok bool) {
	if len(q.chunks) == 0 {
		return turn{}, false
	}
	return q.chunks[0][0], true
}

// drop takes the first turn away. There is one.
func (q *queue) drop() {
	q.chunks[0][0] = turn{}
	q.chunks[0] = q.chunks[0][1:]
	if len(q.chunks[0]) == 0 {
		q.chunks[0] = nil
		q.chunks = q.chunks[1:]
	}
}

// putBack puts turns that were dropped last in front again.
func (q *queue) putBack(turns []turn) {
	if len(turns) > 0 {
		q.chunks = slices.Insert(q.chunks, 0, turns)
	}
}
