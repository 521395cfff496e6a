package enginetest

import (
	"math/rand/v2"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// keeps is what a session takes with it when it sleeps.
type keeps struct {
	note  *note         // what Prompted says
	token string        // of the command "token"
	idle  time.Duration // the command "idle" has set it in place of acceptor.idle
	due   int64         // when TimedOut may come; 0: never
	awake int           // how often Sleep refuses
	pings int           // how often TimedOut only says so; < 0: it says nothing, for ever
	rank  int           // how many Protocols the connection had before
}

// sleeping is what the acceptor knows about a session that sleeps.
type sleeping struct {
	memo  engine.Memo
	keeps keeps
}

// A sleeperSession is a session that implements engine.Sleeper. It implements
// engine.Starter, too: nobody may call Start on one that was woken.
type sleeperSession struct {
	starterSession
	woken bool
}

// Capabilities implements engine.Protocol.
func (s *sleeperSession) Capabilities() engine.Capabilities {
	return s.starterSession.Capabilities() | engine.CanSleep
}

// Start implements engine.Starter.
func (s *sleeperSession) Start() engine.Next {
	if s.woken {
		s.acceptor.violate("Start called on a session that was woken")
	}
	return s.starterSession.Start()
}

// Sleep implements engine.Sleeper. The memo uses every bit that there is.
func (s *sleeperSession) Sleep() (engine.Memo, bool) {
	a := s.acceptor
	if !s.isPaused {
		a.violate("Sleep called without a Pause that returned true right before")
	}
	defer s.enter("Sleep")()
	if s.keeps.awake > 0 {
		s.keeps.awake--
		s.refused++
		return engine.Memo{ID: rand.Uint64()}, false
	}
	s.dead.Store(true)
	memo := engine.Memo{ID: rand.Uint64(), Served: rand.Uint64(), Opened: int64(rand.Uint64())}
	a.mu.Lock()
	a.sleeping[memo.ID] = sleeping{memo, s.keeps}
	a.mu.Unlock()
	a.slept.Add(1)
	s.conn, s.keeps = nil, keeps{}
	return memo, true
}

// A waker is an acceptor of sleeperSessions.
type waker struct{ *acceptor }

// Wake implements engine.Waker.
func (w *waker) Wake(c engine.Conn, memo engine.Memo) engine.Protocol {
	a := w.acceptor
	a.mu.Lock()
	was, ok := a.sleeping[memo.ID]
	delete(a.sleeping, memo.ID)
	a.mu.Unlock()
	if !ok || was.memo != memo {
		a.violate("Wake got %+v, which is nobody's Memo (%+v)", memo, was.memo)
	}
	if c == nil {
		a.violate("Wake got no connection")
	}
	a.woken.Add(1)
	s := &session{acceptor: a, conn: c, keeps: was.keeps}
	return &sleeperSession{starterSession: starterSession{session: s, started: true}, woken: true}
}
