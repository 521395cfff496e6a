package supervise

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// playRole runs the program for a role.
func playRole(role string) int {
	// Processes that a failing test leaves behind end soon.
	time.AfterFunc(time.Minute, func() { os.Exit(5) })
	switch role {
	case "echo":
		return (&echo{}).run()
	case "crash": // attaches and dies
		if _, err := Attach(AttachOptions{}); err != nil {
			return 9
		}
		return 3
	case "fatal":
		w, err := Attach(AttachOptions{})
		if err != nil || w.Fatal("config", "no such certificate") != nil {
			return 9
		}
		return 1
	case "stuck": // is ready, and then answers nothing
		w, err := Attach(AttachOptions{})
		if err != nil || w.Ready() != nil {
			return 9
		}
		select {}
	case "idle": // does not use this package; SIGTERM ends it
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		<-terminated
		return 0
	case "bare": // has no master, and reports what it and its child inherit
		ShieldInherited()
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), roleVariable+"=report")
		out, err := child.Output()
		var r report
		if err != nil || json.Unmarshal(out, &r) != nil {
			return 9
		}
		w, err := Attach(AttachOptions{})
		if err != nil || !w.IsBare() || w.Slot() != 0 || w.Generation() != 0 {
			return 9
		}
		r.HasListener = len(w.Listeners()) == 1
		json.NewEncoder(os.Stdout).Encode(r)
		return 0
	case "report": // reports what a worker's child inherits
		json.NewEncoder(os.Stdout).Encode(reportOf(os.Environ()))
		return 0
	case "master":
		return runMaster()
	}
	return unknownRole(role)
}

// report is what a worker's child inherited.
type report struct {
	Env         []string
	Descriptors []string
	HasListener bool // the worker itself
}

func reportOf(environment []string) report {
	r := report{Env: environment}
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range links {
		if target, err := os.Readlink(name); err == nil {
			r.Descriptors = append(r.Descriptors, filepath.Base(name)+" "+target)
		}
	}
	return r
}

// masterSpec is the configuration of the role "master", passed in masterVariable.
type masterSpec struct {
	Workers     int
	Role        string
	GraceMS     int
	OrphanMS    int
	HangMS      int
	Threshold   int
	Lingers     bool // the program does not end with Run
	IntervalMS  int
	Environment []string
}

const masterVariable = "SUPERVISE_TEST_MASTER"

// runMaster is a program that serves with workers. It ends with its stdin, so it
// cannot outlive the test.
func runMaster() int {
	text, _ := TakeEnv(masterVariable)
	var spec masterSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return 2
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(4)
	}()
	sockets := &slotSockets{}
	m, err := New(Config{
		Workers:          spec.Workers,
		Sockets:          sockets.open,
		Env:              append([]string{roleVariable + "=" + spec.Role}, spec.Environment...),
		GracePeriod:      time.Duration(spec.GraceMS) * time.Millisecond,
		OrphanGrace:      time.Duration(spec.OrphanMS) * time.Millisecond,
		HangTimeout:      time.Duration(spec.HangMS) * time.Millisecond,
		Inboxes:          true,
		RecoverThreshold: spec.Threshold,
		RecoverInterval:  time.Duration(spec.IntervalMS) * time.Millisecond,
		Logger:           log.New(os.Stderr, "", 0),
		Hooks:            Hooks{OnFleetReady: func() { fmt.Fprintln(os.Stderr, "address", sockets.address()) }},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	err = m.Run(context.Background())
	if spec.Lingers {
		fmt.Fprintln(os.Stderr, "run has ended")
		select {}
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrQuit):
		return 131
	default:
		fmt.Fprintln(os.Stderr, "run:", err)
		return 3
	}
}

// echo is a worker that answers lines over TCP.
type echo struct {
	worker *Worker

	own      []net.Listener
	adopted  map[int][]net.Listener
	loops    sync.WaitGroup // of accept
	open     sync.WaitGroup // connections
	accepted atomic.Uint64
	done     atomic.Uint64
	isStuck  atomic.Bool // PINGs are not answered
	isIdle   atomic.Bool // nothing is accepted
}

// recordSize is the size of a worker's record in the shared file: the number of
// connections that it accepted, and the number that it finished.
const recordSize = 16

// recordOffset is the offset of a worker's record.
func recordOffset(k key) int64 { return int64(k.slot*1000+k.generation) * recordSize }

// note writes one of the two numbers.
func (e *echo) note(field int64, n uint64) {
	if files := e.worker.Shared(); len(files) > 0 {
		k := key{e.worker.Slot(), e.worker.Generation()}
		files[0].WriteAt(binary.LittleEndian.AppendUint64(nil, n), recordOffset(k)+8*field)
	}
}

func (e *echo) run() int {
	w, err := Attach(AttachOptions{Logger: log.New(os.Stderr, "", 0), OnPing: e.ping})
	if err != nil {
		fmt.Fprintln(os.Stderr, "attach:", err)
		return 2
	}
	e.worker, e.adopted = w, make(map[int][]net.Listener)
	w.Receive(e.take)
	if e.own, err = e.listen(w.Listeners()); err != nil {
		w.Fatal("bind", err.Error())
		return 1
	}
	if err := w.Ready(); err != nil {
		return 2
	}
	for {
		select {
		case o := <-w.Orders():
			if e.obey(o) {
				return 0
			}
		case <-w.Orphaned():
			e.drain(w.OrphanGrace(), false)
			return 0
		}
	}
}

// listen serves files.
func (e *echo) listen(files []*os.File) ([]net.Listener, error) {
	var all []net.Listener
	for _, f := range files {
		ln, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, ln)
		e.loops.Go(func() { e.accept(ln) })
	}
	return all, nil
}

// obey carries out an order. It returns true when the process should end.
func (e *echo) obey(o Order) bool {
	switch o.Kind {
	case OrderDrain:
		e.drain(o.Grace, o.HasSuccessor)
		e.worker.Drained(DrainStats{Finished: int(e.done.Load())})
		return true
	case OrderAdopt:
		listeners, err := e.listen(o.Files)
		if err == nil {
			e.adopted[o.Slot] = listeners
		}
	case OrderRelease:
		for _, ln := range e.adopted[o.Slot] {
			ln.Close()
		}
		delete(e.adopted, o.Slot)
	case OrderReopen:
		log.New(os.Stderr, "", 0).Printf("worker %d: reopened", e.worker.Slot())
	case OrderQuit:
		return true
	}
	o.Ack()
	return false
}

// ping answers the master's probe.
func (e *echo) ping() error {
	if e.isStuck.Load() {
		return errors.New("stuck")
	}
	return nil
}

// take serves a connection that another worker accepted.
func (e *echo) take(fd int, payload []byte) {
	file := os.NewFile(uintptr(fd), "parcel")
	defer file.Close()
	if conn, err := net.FileConn(file); err == nil {
		fmt.Fprintln(conn, string(payload))
		e.open.Go(func() {
			defer conn.Close()
			e.serve(conn)
		})
	}
}

// pass posts conn to a slot.
func (e *echo) pass(conn net.Conn, slot int) error {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	payload := fmt.Sprintf("passed by %d.%d", e.worker.Slot(), e.worker.Generation())
	if controlErr := raw.Control(func(fd uintptr) { err = e.worker.Post(slot, int(fd), []byte(payload), time.Second) }); controlErr != nil {
		return controlErr
	}
	return err
}

// drain stops accepting and waits for accepted connections. If no successor empties
// the queue, drain accepts what is in it first.
func (e *echo) drain(grace time.Duration, hasSuccessor bool) {
	for _, listeners := range e.adopted {
		e.own = append(e.own, listeners...)
	}
	for _, ln := range e.own {
		if !hasSuccessor {
			ln.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond))
			continue
		}
		ln.Close()
	}
	e.worker.StopReceiving(!hasSuccessor)
	finished := make(chan struct{})
	go func() {
		e.loops.Wait() // a loop may have accepted one just now
		e.open.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(grace):
	}
}

// accept serves a listener until it is closed.
func (e *echo) accept(ln net.Listener) {
	for {
		for e.isIdle.Load() {
			time.Sleep(time.Millisecond)
		}
		conn, err := ln.Accept()
		if err != nil {
			ln.Close() // the error may be a deadline
			return
		}
		e.open.Add(1)
		e.note(0, e.accepted.Add(1))
		go func() {
			defer e.open.Done()
			e.serve(conn)
			conn.Close()
			e.note(1, e.done.Add(1))
		}()
	}
}

// hangForEver appears in the stacks of a worker that hangs.
func hangForEver() { select {} }

// serve answers the lines of one connection.
func (e *echo) serve(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var word, argument string
		fmt.Sscan(lines.Text(), &word, &argument)
		switch word {
		case "who":
			fmt.Fprintf(conn, "%d.%d %d\n", e.worker.Slot(), e.worker.Generation(), os.Getpid())
		case "sleep":
			d, _ := time.ParseDuration(argument)
			fmt.Fprintln(conn, "sleeping")
			time.Sleep(d)
			fmt.Fprintln(conn, "slept")
		case "report":
			child := exec.Command("/proc/self/exe")
			child.Env = append(os.Environ(), roleVariable+"=report")
			out, err := child.Output()
			if err != nil {
				out = []byte(err.Error() + "\n")
			}
			conn.Write(out)
		case "orphan": // leaves a process without a parent
			exec.Command("/bin/sh", "-c", "sleep 0.1 &").Run()
			fmt.Fprintln(conn, "left")
		case "slots":
			fmt.Fprintln(conn, e.worker.Slots())
		case "pass", "strand": // passes to a slot; "strand": to its own slot, unread, and dies
			slot, _ := strconv.Atoi(argument)
			if word == "strand" {
				e.worker.StopReceiving(false)
			}
			if err := e.pass(conn, slot); err != nil {
				fmt.Fprintln(conn, err)
				continue
			}
			if word == "strand" {
				os.Exit(3)
			}
			return
		case "hang":
			e.isStuck.Store(true)
			fmt.Fprintln(conn, "hanging")
			hangForEver()
		case "idle":
			e.isIdle.Store(true)
			fmt.Fprintln(conn, "idle")
		case "die":
			os.Exit(3)
		}
	}
}
