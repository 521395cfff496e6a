package proxy

import "testing"

// interrupts counts the calls of Interrupt.
type interrupts chan struct{}

func (i interrupts) Interrupt() { i <- struct{}{} }

// TestGuard: what is guarded is interrupted once if the client disconnects, also meanwhile, and
// Unguard says so; otherwise never. It may be two connections, and the functions of contexts.
func TestGuard(t *testing.T) {
	for round := range 3000 {
		x := newExchange()
		var conns [2]interrupts
		hasStarted, isOver := make(chan struct{}), make(chan struct{})
		if round%3 == 0 {
			x.disconnected()
		} else {
			go func() {
				defer close(isOver)
				<-hasStarted
				x.disconnected()
				x.disconnected()
			}()
		}
		close(hasStarted)
		for i := range conns {
			conns[i] = make(interrupts, 2)
			x.Guard(conns[i])
		}
		ended := make(interrupts, 2)
		stop := x.AfterFunc(ended.Interrupt)
		if round%3 == 1 {
			<-isOver
		}
		all := map[*interrupts]bool{&ended: stop()}
		for i := range conns {
			all[&conns[i]] = x.Unguard(conns[i])
		}
		if round%3 == 2 {
			<-isOver
		}
		for c, wasStopped := range all {
			if wasStopped && round%3 < 2 { // it had ended before
				t.Fatal("Unguard says that it was not interrupted")
			}
			if !wasStopped {
				<-*c
			}
			if len(*c) > 0 {
				t.Fatalf("interrupted although Unguard says %v", wasStopped)
			}
		}
		if !x.isSpent() || x.Err() == nil {
			t.Fatal("the context has not ended")
		}
	}
	x := newExchange()
	conn := make(interrupts, 1)
	x.Guard(conn)
	stop := x.AfterFunc(func() { t.Error("called") })
	for _, end := range []func() bool{func() bool { return x.Unguard(conn) }, stop} {
		if !x.isSpent() {
			t.Error("the context is guarded, and nothing waits for it")
		}
		if !end() {
			t.Error("it was interrupted")
		}
	}
	if x.isSpent() || x.Unguard(conn) || x.conn != nil {
		t.Error("the connection is still guarded")
	}
}
