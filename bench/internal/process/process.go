// Package process runs servers as processes of their own, so that their CPU
// time and memory can be told from the clients'. A program that uses it calls
// Main first: the servers are the same program, started again.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice/bench/internal/peers"
)

// A Role is what a program does when it was started by itself.
type Role func(args []string) error

// Main runs the role named by the program's first argument and exits, if there
// is one of that name. Role "serve" is built in.
func Main(roles map[string]Role) {
	if len(os.Args) < 2 {
		return
	}
	role := roles[os.Args[1]]
	if os.Args[1] == serveRole {
		role = serve
	}
	if role == nil {
		return
	}
	if err := role(os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Join(os.Args, " "), err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	serveRole = "serve"
	settle    = "settle" // command on a server's standard input: give memory back
)

// serve is the server's process: it serves the listener that it inherited until
// its standard input ends, as it does when the parent dies.
func serve(args []string) error {
	if len(args) != 1 {
		return errors.New("want the server's kind")
	}
	server, err := peers.New(args[0], 0)
	if err != nil {
		return err
	}
	ln, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	go func() { failed <- obey() }()
	return <-failed
}

// obey carries out the commands on standard input and acknowledges each.
func obey() error {
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		if commands.Text() == settle {
			runtime.GC() // pools keep what they hold for one more collection
			debug.FreeOSMemory()
		}
		fmt.Println(commands.Text())
	}
	return commands.Err()
}

// A Child is this program, started again.
type Child struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Scanner
}

// AnyCPU lets a child run on every CPU.
const AnyCPU = -1

// Start starts this program in a role, on one CPU or AnyCPU, with files as its
// descriptors 3 and up.
func Start(ctx context.Context, cpu int, files []*os.File, role string, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{self, role}, args...)
	if cpu != AnyCPU {
		command = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, command...)
	}
	c := &Child{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	c.cmd.Stderr = os.Stderr
	c.cmd.ExtraFiles = files
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(output)
	return c, c.cmd.Start()
}

// Stop ends the child by ending its standard input, and waits for it.
func (c *Child) Stop() error {
	c.input.Close()
	return c.cmd.Wait()
}

// Line waits for the next line of the child's output.
func (c *Child) Line() (string, error) {
	if !c.lines.Scan() {
		return "", fmt.Errorf("process %d said no more: %w", c.cmd.Process.Pid, errors.Join(c.lines.Err(), c.cmd.Wait()))
	}
	return c.lines.Text(), nil
}

// A Server is a server of peers in a process of its own.
type Server struct {
	*Child
	Addr string // 127.0.0.1 and a port
}

// StartServer starts a server of a kind of package peers on a free port.
func StartServer(ctx context.Context, cpu int, kind string) (*Server, error) {
	ln, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	child, err := Start(ctx, cpu, []*os.File{f}, serveRole, kind)
	if err != nil {
		return nil, err
	}
	return &Server{Child: child, Addr: ln.Addr().String()}, nil
}

// Settle makes the server collect its garbage and return free memory.
func (s *Server) Settle() error {
	if _, err := fmt.Fprintln(s.input, settle); err != nil {
		return err
	}
	_, err := s.Line()
	return err
}

// listen listens on a port below the range that the system gives to clients:
// within it, the port may be taken by a connection that is closing.
func listen(ctx context.Context) (net.Listener, error) {
	const lowest = 12_000
	first, err := firstClientPort()
	if err != nil {
		return nil, err
	}
	if first <= lowest {
		return nil, fmt.Errorf("the range of client ports begins at %d, which leaves none above %d for servers: raise net.ipv4.ip_local_port_range", first, lowest)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	for range 100 {
		port := lowest + rand.IntN(first-lowest)
		var ln net.Listener
		if ln, err = config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return ln, nil
		}
	}
	return nil, err
}

func firstClientPort() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\t")
	return strconv.Atoi(first)
}
