package hold

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// roleVariable makes the test binary play a manager or a worker.
const roleVariable = "SLUICE_HOLD_TEST"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	time.AfterFunc(time.Minute, func() { os.Exit(5) }) // a failing test may leave it behind
	if role == "worker" {
		work()
	}
	fd, err := strconv.Atoi(os.Getenv(Variable))
	if err != nil {
		os.Exit(8)
	}
	manage(fd, role)
}

// work waits for SIGTERM, or for the end of the lifeline.
func work() {
	go func() {
		os.NewFile(3, "lifeline").Read(make([]byte, 1))
		os.Exit(6)
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	<-terminated
	os.Exit(7)
}

// manage is a manager that carries out signals:
//
//	HUP   dies
//	USR1  probes the binary "good", and Put the result as entry "probed"
//	USR2  hands over to a manager with the binary "good"
//	WINCH dismisses a manager that is ready
//	TTIN  puts an entry with a file and starts a worker, and says whether the holder had room
//	TERM  ends the worker and the service
//
// It keeps a history in the entry of the state. Role "refuses" refuses, "dies" exits, "silent"
// is never ready, "stateless" leaves no state; any other role is a file, with which no
// manager gets ready. If the file with the suffix .late exists, managers exit before they leave
// a state; one that hands over makes the file with the suffix .yield, if that of .slow exists,
// and waits until it is removed.
// long: a case for each signal
func manage(fd int, role string) {
	_, err := os.Stat(role)
	switch {
	case role == "dies" || err == nil:
		os.Exit(9)
	case role == "silent":
		select {}
	}
	signal.Notify(make(chan os.Signal, 1), supervise.Signals()...)
	m, err := Connect(fd)
	if err != nil {
		os.Exit(4)
	}
	if role == "refuses" {
		m.Refuse(fmt.Errorf("refused: %w", syscall.EADDRINUSE))
		os.Exit(1)
	}
	if m.Manage() != nil {
		os.Exit(4)
	}
	if exists(role + ".late") {
		os.Exit(9)
	}
	go func() {
		<-m.Gone()
		os.Exit(3)
	}()
	history := string(m.Held().Entries[supervise.EntryFleet].Data)
	note := func(format string, args ...any) {
		history += fmt.Sprintf(format, args...) + " "
		m.Put(supervise.EntryFleet, []byte(history))
	}
	ids := []string{}
	for id := range m.Held().Children {
		ids = append(ids, id)
	}
	note("manages %s %v", m.Manages(), ids)
	if role == "stateless" {
		m.Put(supervise.EntryFleet, nil)
	}
	if len(ids) == 0 && !strings.Contains(history, "ended") {
		kept := m.Held().Take(supervise.EntryLifeline)
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			os.Exit(4)
		}
		m.Put(supervise.BinaryPrefix+"first", nil, self)
		m.Put(supervise.BinaryPrefix+"good", nil, self)
		bad, err := os.Open("/bin/false")
		if err != nil {
			os.Exit(4)
		}
		m.Put(supervise.BinaryPrefix+"bad", nil, bad)
		p := supervise.Process{Binary: supervise.BinaryPrefix + "good", Args: os.Args, Env: append(os.Environ(), roleVariable+"=worker"), Files: kept}
		if _, err := m.Start("0.1", p, kept...); err != nil {
			note("%v", err)
		}
		if _, err := m.Start("0.1", p); err == nil {
			note("started twice")
		}
	}
	go func() {
		how := m.Wait("0.1")
		m.Forget("0.1")
		note("ended: %s", how)
		m.Over([]byte(history))
		os.Exit(0)
	}()
	for s := range m.Signals() {
		switch s {
		case syscall.SIGHUP:
			os.Exit(2)
		case syscall.SIGUSR1:
			note("probed: %v, %v", m.Probe(supervise.BinaryPrefix+"good"), m.Probe(supervise.BinaryPrefix+"bad"))
		case syscall.SIGUSR2:
			if err := m.Replace(supervise.BinaryPrefix + "good"); err != nil {
				note("%v", err)
			}
			if exists(role + ".slow") {
				os.WriteFile(role+".yield", nil, 0o600)
				for exists(role + ".yield") {
					time.Sleep(2 * time.Millisecond)
				}
			}
			m.Yield()
			os.Exit(0)
		case syscall.SIGWINCH:
			note("replace: %v", m.Replace(supervise.BinaryPrefix+"good"))
			note("probe: %v", m.Probe(supervise.BinaryPrefix+"good"))
			m.Dismiss()
			m.Drop(supervise.BinaryPrefix + "bad")
			note("probe: %v", m.Probe(supervise.BinaryPrefix+"bad"))
		case syscall.SIGTTIN:
			null, err := os.Open("/dev/null")
			if err != nil {
				os.Exit(4)
			}
			putErr := m.Put("null", nil, null)
			_, startErr := m.Start("1.1", supervise.Process{Binary: supervise.BinaryPrefix + "good"}, null)
			note("put: %v start: %v", errors.Is(putErr, syscall.EMFILE), errors.Is(startErr, syscall.EMFILE))
		case syscall.SIGTERM:
			m.Signal("0.1", syscall.SIGTERM)
		case syscall.SIGINT:
			m.Signal("0.1", syscall.SIGKILL)
		}
	}
}

// exists reports whether a file exists.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
