package hold

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// ErrGone says that the holder has died. The manager should exit: the workers end by
// themselves.
var ErrGone = errors.New("sluice: the process that holds the service has died")

// A Manager is a manager's connection to its holder. It implements supervise.Holder.
type Manager struct {
	conn    *conn
	manages string
	// answersPut reports whether the holder answers Put. Set by Manage.
	answersPut bool
	held       *supervise.Held
	signals    chan os.Signal
	gone       chan struct{} // closed when the holder has died

	mu      sync.Mutex
	last    int
	answers map[int]chan frame
	exited  map[string]chan string // by id: how the process has ended
}

// Connect takes the socket to the holder, which is descriptor fd, and receives what the
// holder keeps.
func Connect(fd int) (*Manager, error) {
	supervise.RestoreName()
	unix.CloseOnExec(fd)
	c, err := newConn(os.NewFile(uintptr(fd), "holder"))
	if err != nil {
		return nil, err
	}
	m := &Manager{
		conn: c, signals: make(chan os.Signal, maxSignals), gone: make(chan struct{}),
		answers: make(map[int]chan frame), exited: make(map[string]chan string),
	}
	err = c.send(frame{Kind: kindConnect})
	if err == nil {
		err = m.receiveHeld(kindPreview)
	}
	if err != nil {
		m.Refuse(err)
		c.close()
		return nil, err
	}
	return m, nil
}

// receiveHeld receives all entries, up to a frame of the kind end. If files are lost, the rest is
// still received, so that the holder gets to what follows.
func (m *Manager) receiveHeld(end kind) error {
	held := &supervise.Held{Entries: make(map[string]supervise.Entry)}
	var lost error
	for {
		f, err := m.conn.receive()
		if err != nil {
			held.Close()
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
		if lost == nil {
			lost = f.lost
		}
		switch f.Kind {
		case kindHeld:
			held.Entries[f.Name] = supervise.Entry{Data: f.Data, Files: f.files}
		case end:
			if lost != nil {
				held.Close()
				return fmt.Errorf("sluice: what the service needs is not there: %w", lost)
			}
			held.Children = f.Children
			m.held, m.manages, m.answersPut = held, f.Manages, f.Number >= answersPut
			return nil
		default:
			closeFiles(f.files)
		}
	}
}

// Held returns what the holder keeps: before Manage what it kept when this manager was
// started, and then what the manager before has left. The caller owns the files.
func (m *Manager) Held() *supervise.Held { return m.held }

// Manages returns the id of this manager's binary; "" in the first manager.
func (m *Manager) Manages() string { return m.manages }

// Manage says that this process can manage, and waits until it is to do so. The process
// may be ended instead.
func (m *Manager) Manage() error {
	m.held.Close()
	if err := m.conn.send(frame{Kind: kindReady}); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err := m.receiveHeld(kindManage); err != nil {
		return err
	}
	for id := range m.held.Children {
		m.exited[id] = make(chan string, 1)
	}
	go m.listen()
	return nil
}

// Refuse says why this process cannot manage. It should exit next.
func (m *Manager) Refuse(reason error) error {
	return m.tell(frame{Kind: kindRefuse, Text: reason.Error(), Data: supervise.AppendResult(nil, reason)})
}

// listen passes the holder's frames on.
func (m *Manager) listen() {
	defer m.end()
	for {
		f, err := m.conn.receive()
		if err != nil {
			return
		}
		closeFiles(f.files)
		switch f.Kind {
		case kindStarted, kindAnswer:
			m.mu.Lock()
			answer := m.answers[f.Seq]
			delete(m.answers, f.Seq)
			if f.Kind == kindStarted && f.Text == "" {
				m.exited[f.Name] = make(chan string, 1) // before its end is reported
			}
			m.mu.Unlock()
			if answer != nil {
				answer <- f
			}
		case kindExited:
			m.mu.Lock()
			exited := m.exited[f.Name]
			m.mu.Unlock()
			if exited != nil {
				exited <- f.Text
			}
		case kindSignalled:
			go m.tell(frame{Kind: kindHeard, Number: f.Number}) // listen must not wait for the holder
			select {
			case m.signals <- syscall.Signal(f.Number):
			default: // no goroutine reads them
			}
		}
	}
}

// end wakes everyone who waits for the holder.
func (m *Manager) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.gone)
	for seq, answer := range m.answers {
		answer <- frame{Text: ErrGone.Error()}
		delete(m.answers, seq)
	}
}

// Gone returns a channel that is closed when the holder has died.
func (m *Manager) Gone() <-chan struct{} { return m.gone }

// Signals returns the channel of the signals that the holder has received.
func (m *Manager) Signals() <-chan os.Signal { return m.signals }

// ask sends f with a number, and waits for the answer.
func (m *Manager) ask(f frame) (frame, error) {
	answer := make(chan frame, 1)
	m.mu.Lock()
	m.last++
	f.Seq = m.last
	m.answers[f.Seq] = answer
	m.mu.Unlock()
	if err := m.tell(f); err != nil {
		m.mu.Lock()
		delete(m.answers, f.Seq)
		m.mu.Unlock()
		return frame{}, err
	}
	select {
	case f = <-answer:
	case <-m.gone:
		return frame{}, ErrGone
	}
	switch {
	case f.Text == "":
		return f, nil
	case f.Data != nil:
		return f, supervise.ParseResult(f.Data)
	}
	return f, errors.New(f.Text)
}

// tell sends f. Other errors than ErrGone say that f was not sent, and the connection goes on.
func (m *Manager) tell(f frame) error {
	err := m.conn.send(f)
	if errors.Is(err, errInFlight) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// Put implements supervise.Holder. It waits for the holder if there are files.
func (m *Manager) Put(name string, data []byte, files ...*os.File) error {
	f := frame{Kind: kindPut, Name: name, Data: data, files: files}
	if len(files) == 0 || !m.answersPut {
		return m.tell(f)
	}
	_, err := m.ask(f)
	return err
}

// Drop implements supervise.Holder.
func (m *Manager) Drop(name string) error { return m.tell(frame{Kind: kindDrop, Name: name}) }

// Start implements supervise.Holder.
func (m *Manager) Start(id string, p supervise.Process, kept ...*os.File) (pid int, err error) {
	files := append(append([]*os.File(nil), p.Files...), kept...)
	f, err := m.ask(frame{Kind: kindStart, Name: id, Process: &p, Kept: len(kept), files: files})
	return f.Number, err
}

// Wait implements supervise.Holder.
func (m *Manager) Wait(id string) string {
	m.mu.Lock()
	exited := m.exited[id]
	m.mu.Unlock()
	select {
	case how := <-exited:
		return how
	case <-m.gone:
		return ""
	}
}

// Signal implements supervise.Holder.
func (m *Manager) Signal(id string, sig syscall.Signal) error {
	return m.tell(frame{Kind: kindSignal, Name: id, Number: int(sig)})
}

// Forget implements supervise.Holder.
func (m *Manager) Forget(id string) error {
	m.mu.Lock()
	delete(m.exited, id)
	m.mu.Unlock()
	return m.tell(frame{Kind: kindForget, Name: id})
}

// Probe implements supervise.Holder.
func (m *Manager) Probe(binary string) error {
	_, err := m.ask(frame{Kind: kindProbe, Name: binary})
	return err
}

// Replace implements supervise.Holder.
func (m *Manager) Replace(binary string) error {
	_, err := m.ask(frame{Kind: kindReplace, Name: binary})
	return err
}

// Dismiss implements supervise.Holder.
func (m *Manager) Dismiss() error { return m.tell(frame{Kind: kindDismiss}) }

// Yield says that the manager that Replace has started takes over. This one must not act
// any more, and should exit.
func (m *Manager) Yield() error { return m.tell(frame{Kind: kindYield}) }

// Over says that the service has ended. Run returns result in the holder.
func (m *Manager) Over(result []byte) error { return m.tell(frame{Kind: kindOver, Data: result}) }
