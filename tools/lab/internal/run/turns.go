//go:build linux

package run

// turns has client processes take turns in a sweep: some send at the same time,
// and the others when those have asked all of their connections. A hundred
// processes that all send switch among each other, and push each other out of
// the caches, on the cores of one machine.
type turns struct {
	clients int
	atOnce  int
	given   int   // in all
	done    []int // by client, as far as is known
	isOver  bool  // no more are given
	isEnded bool  // end has told
}

func newTurns(clients, atOnce int) *turns {
	return &turns{clients: clients, atOnce: atOnce, done: make([]int, clients)}
}

// took notes that a client has had so many turns.
func (t *turns) took(client, times int) { t.done[client] = times }

// next returns the clients whose turn it is now. When time is up, the sweep that
// has begun is carried to its end.
func (t *turns) next(isTimeUp bool) (clients []int) {
	for taken := t.taken(); !t.isOver && t.given-taken < t.atOnce; {
		client := t.given % t.clients
		if client == 0 && isTimeUp && t.given > 0 {
			t.isOver = true
			break
		}
		if t.done[client] < t.given/t.clients {
			break // it has not had the last one yet
		}
		t.given++
		clients = append(clients, client)
	}
	return clients
}

// end tells, once, that the last sweep is over.
func (t *turns) end() bool {
	if !t.isOver || t.isEnded || t.taken() < t.given {
		return false
	}
	t.isEnded = true
	return true
}

// taken returns how many turns are over.
func (t *turns) taken() (n int) {
	for _, times := range t.done {
		n += times
	}
	return n
}
