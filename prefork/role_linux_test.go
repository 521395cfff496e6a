package prefork

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/shared"
	"golang.org/x/sys/unix"
)

// A setup describes a test's fleet.
type setup struct {
	Workers, Threshold      int
	Window, Interval        time.Duration
	Grace, Drain, Linger    time.Duration
	Soak, Boot              time.Duration // Soak 0: none
	Upgrade                 bool
	Versions                bool // workers behave as their binary says; see version_linux_test.go
	Engine                  sluice.Engine
	IOUring                 sluice.IOUring
	TellsEngine             bool // workers print the engine's EngineInfo
	Addr                    string
	Listen                  []string
	Network                 string
	OwnServe, Shared, TLS   bool   // OwnServe: a ServeFunc that does not use a Server
	TLSFiles                string // TLS with a certificate in this folder
	CompactTLS              string // Server.CompactTLS of the workers, but of those that start when this file exists; "-": of all
	Degrade                 bool
	Failing                 string // the error of OnWorkerStart; "crash": exit
	Death                   string // a file that OnMasterDeath writes
	BareProducer, Reuseport bool
	Broken                  string // if this file exists, restarts fail: it contains "reload" or "boot"
	Config                  string // LoadConfig reads this file; workers do not start with "bad"
	Producer                string // a CommandProducer that starts this file, with all files
	AllFiles                bool   // of the producer: it passes on all files, after one of its own
	NetHTTP                 bool   // the workers use net/http
	Admin                   string // Prefork.Admin
	BootGate                string // successors wait for this file
	FirstGate               string // the first workers wait for this file
	Delay                   time.Duration
	Pinned                  bool // slot n runs on CPU n
	Hang                    time.Duration
	FullLog                 string // stderr is a full pipe until this file exists
	Processes               int    // of shared.Setup
	BadMemory               bool   // of the workers: the descriptor of the segment is another file
	EarlyChild              bool   // workers start a process before they listen, and print its pid
	StuckAccept             string // the first worker of slot 0 accepts nothing once this file exists
	HTTP2, Proxied          bool
	PerIP                   int       // MaxConnsPerIP
	Descriptors             [2]uint64 // RLIMIT_NOFILE of the first workers, and of their successors
	WebSocket               bool      // of the path /websocket
	Rooms                   bool      // of the path /room
	History                 int       // of the rooms
	Streams                 bool      // of the paths /events and /publish
	Publishing              publishing
	Profiles                bool // Prefork.Profiles
	Packets                 bool // workers answer packets; see withPackets

	User, Group string
	MaxFiles    uint64
	NoNew       bool

	systemd []string   // the environment that it sets; nil: one without effect
	passed  []*os.File // sockets that it passes
}

// playRole plays the master of a fleet and its workers.
func playRole(role string) int {
	if role == "grandchild" {
		fmt.Print(IsChild(), " ", os.Getenv(markerVariable), " ", os.Getenv("GOMAXPROCS"))
		return 0
	}
	if role == "marked" {
		return playMarked()
	}
	var s setup
	if err := json.Unmarshal([]byte(role), &s); err != nil {
		return 9
	}
	if !IsChild() && !IsManager() {
		go func() { // the test has ended
			io.Copy(io.Discard, os.Stdin)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}()
	}
	if s.FullLog != "" && !IsChild() && !IsManager() {
		if err := fillLog(s.FullLog); err != nil {
			fmt.Println("no full log:", err)
			return 9
		}
	}
	if s.Processes > 0 {
		shared.Must(shared.Setup(shared.Options{Processes: s.Processes}))
	}
	if IsChild() && s.BadMemory {
		if err := spoilMemory(); err != nil {
			fmt.Println("the memory is good:", err)
			return 9
		}
	}
	if IsChild() && s.EarlyChild {
		startEarlyChild()
	}
	p := newFleet(s)
	if s.Versions && (IsChild() || IsManager()) {
		behave(p)
	}
	var err error
	if s.TLS {
		cert, key, _ := sluice.GenerateTestCertificate("localhost")
		p.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
		if s.CompactTLS != "" {
			_, err := os.Stat(s.CompactTLS)
			p.server.CompactTLS = err != nil
		}
		err = p.ListenAndServeTLSEmbed(s.Addr, cert, key)
	} else if s.TLSFiles != "" {
		err = serveTLSFiles(p, s.Addr, s.TLSFiles)
	} else {
		err = p.ListenAndServe(s.Addr)
	}
	who := "master"
	if IsChild() {
		who = "worker"
	}
	fmt.Printf("%s returned %v\n", who, err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrQuit):
		return 131
	}
	return 1
}

// playMarked plays a program that makes itself a worker.
func playMarked() int {
	os.Setenv(markerVariable, markerValue)
	p := &Prefork{ServeFunc: func(ln net.Listener) error { fmt.Print(ln.Addr(), " "); return nil }}
	err := p.ListenAndServe("")
	if errors.Is(err, errNoListener) {
		fmt.Print("no listener")
		return 0
	}
	fmt.Print(err)
	return 0
}

// serveTLSFiles serves with a certificate in files, which the master makes.
func serveTLSFiles(p *Prefork, addr, folder string) error {
	certFile, keyFile := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	if !IsChild() {
		cert, key, _ := sluice.GenerateTestCertificate("localhost")
		if err := errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
			return err
		}
	}
	return p.ListenAndServeTLS(addr, keyFile, certFile)
}

// newFleet returns the Prefork of s.
// long: one line for each field of the setup
func newFleet(s setup) *Prefork {
	server := &sluice.Server{Engine: s.Engine, IOUring: s.IOUring, Logger: log.New(os.Stderr, "", 0), HTTP2: sluice.HTTP2Config{Disable: !s.HTTP2}}
	server.MaxConnsPerIP = s.PerIP
	if s.Proxied {
		server.ProxyProtocol, server.ProxyTrusted = sluice.ProxyProtocolRequire, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	p := New(server)
	var info WorkerInfo
	ending := make(chan struct{})
	p.OnDrain = func() { fmt.Println("on drain"); close(ending) }
	server.Handler = withStatus(p, withEvents(ending, func(ctx *sluice.RequestCtx) { handle(ctx, info) }))
	if s.WebSocket {
		server.Handler = withWebSocket(server, server.Handler)
	}
	if s.Streams {
		server.Handler = withStreams(p, server, server.Handler)
	}
	if s.Rooms {
		server.Handler = withRooms(p, server, s.History, server.Handler)
	}
	if s.Publishing.Rate > 0 {
		server.Handler = withPublishing(p, s.Publishing, server.Handler)
	}
	if s.OwnServe { // as Fiber does
		serve := p.ServeFunc
		p = &Prefork{ServeFunc: func(ln net.Listener) error { return serve(ln) }, Logger: server.Logger}
	}
	if s.NetHTTP {
		other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			waitFor(r.URL.Query().Get("file"))
			fmt.Fprint(w, "net/http")
		})}
		p = &Prefork{ServeFunc: other.Serve, Drain: other.Shutdown, OnDrain: func() { fmt.Println("on drain") }}
	}
	p.Workers, p.Listen, p.Network, p.SharedSockets = s.Workers, s.Listen, s.Network, s.Shared
	p.RecoverThreshold, p.RecoverWindow, p.RecoverInterval = s.Threshold, s.Window, s.Interval
	p.ShutdownGracePeriod, p.DrainTimeout, p.IdleLinger = s.Grace, s.Drain, s.Linger
	p.Reuseport, p.Admin, p.ShutdownDelay = s.Reuseport, s.Admin, s.Delay
	p.BootTimeout = s.Boot
	p.Upgrade = s.Upgrade
	if p.SoakTime = s.Soak; s.Soak == 0 {
		p.SoakTime = -1
	}
	p.AdminHandler = withRestart(p)
	p.User, p.Group, p.MaxFiles, p.NoNewPrivileges = s.User, s.Group, s.MaxFiles, s.NoNew
	if s.Hang > 0 {
		p.HangTimeout = s.Hang
	}
	if s.Profiles {
		p.Profiles = profiles
	}
	if s.StuckAccept != "" {
		p.ServeFunc = func(ln net.Listener) error { return server.Serve(stuckListener{ln, s.StuckAccept, &info}) }
	}
	if s.Pinned {
		p.Affinity = func(slot int) []int { return []int{slot} }
	}
	if p.OverRecovery = OverRecoveryExit; s.Degrade {
		p.OverRecovery = OverRecoveryDegrade
	}
	p.OnWorkerStart = func(i WorkerInfo) error {
		info = i
		if s.TellsEngine {
			fmt.Println("engine", server.EngineInfo(nil))
		}
		if string(i.Config) == "bad" {
			return errors.New("bad configuration")
		}
		if why, _ := os.ReadFile(s.Broken); string(why) == "boot" {
			return errors.New("broken: boot")
		}
		if n := s.Descriptors[max(min(i.Generation, 2)-1, 0)]; n > 0 {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
				return err
			}
		}
		if s.BootGate != "" && i.Generation > 1 {
			waitFor(s.BootGate)
		}
		if s.FirstGate != "" && i.Generation == 1 {
			waitFor(s.FirstGate)
		}
		switch s.Failing {
		case "":
			return nil
		case "crash":
			os.Exit(3)
		}
		return errors.New(s.Failing)
	}
	if s.Packets {
		withPackets(p)
	}
	printHooks(p)
	if s.Broken != "" {
		p.OnReload = func() error {
			if why, _ := os.ReadFile(s.Broken); string(why) == "reload" {
				return errors.New("broken: reload")
			}
			return nil
		}
	}
	if s.Death != "" {
		p.OnMasterDeath = func() { os.WriteFile(s.Death, []byte("dead"), 0o600) }
	}
	setProducer(p, s)
	setLoadConfig(p, s)
	return p
}

// setProducer sets the CommandProducer of s.
func setProducer(p *Prefork, s setup) {
	program := s.Producer
	if s.BareProducer {
		program = "/proc/self/exe"
	}
	if program == "" {
		return
	}
	p.CommandProducer = func(files []*os.File) (*exec.Cmd, error) {
		c := exec.Command(program)
		c.Env = append(os.Environ(), markerVariable+"="+markerValue)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		switch {
		case s.AllFiles:
			own, err := os.Open(os.DevNull)
			if err != nil {
				return nil, err
			}
			defer own.Close()
			c.ExtraFiles = append([]*os.File{own}, files...)
		case s.Producer != "":
			c.ExtraFiles = files
		case !s.Reuseport:
			c.ExtraFiles = files[:1]
		}
		return c, c.Start()
	}
}

// setLoadConfig makes the master read a file, which must not be empty.
func setLoadConfig(p *Prefork, s setup) {
	if s.Config == "" {
		return
	}
	p.LoadConfig = func() ([]byte, error) {
		text, err := os.ReadFile(s.Config)
		if err == nil && len(text) == 0 {
			err = errors.New("empty configuration")
		}
		return text, err
	}
}

// withRestart adds a restart to the admin's handler.
func withRestart(p *Prefork) sluice.RequestHandler {
	others, restart, control := defaultAdmin(p), RestartHandler(p), ControlHandler(p)
	return func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/restart":
			restart(ctx)
		case "/reopen":
			p.Reopen()
		case "/scale":
			p.Scale(ctx.QueryArgs().GetUintOrZero("workers"))
		default:
			if strings.HasPrefix(string(ctx.Path()), "/control/") {
				control(ctx)
				return
			}
			others(ctx)
		}
	}
}

// printHooks prints a line for each call of a hook.
func printHooks(p *Prefork) {
	p.OnChildSpawn = func(pid int) error { fmt.Println("spawn", pid); return nil }
	p.OnMasterReady = func(pids []int) error { fmt.Println("started", len(pids)); return nil }
	p.OnChildRecover = func(old, now int) { fmt.Println("recover", old, now) }
	p.OnReload = func() error { fmt.Println("reload"); return nil }
	p.OnReopen = func() error { fmt.Println("reopen", os.Getpid(), IsChild()); return nil }
	p.OnFleetReady = func() {
		status, _ := json.Marshal(p.Status())
		fmt.Println("status", string(status))
		for _, a := range p.Addrs() {
			fmt.Println("addr", a)
		}
		fmt.Printf("admin %v\nready %d\n", p.AdminAddr(), os.Getpid())
	}
}

// waitFor returns when a file exists.
func waitFor(name string) {
	nettest.Poll(math.MaxInt64, func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

// handle is the workers' handler.
func handle(ctx *sluice.RequestCtx, info WorkerInfo) {
	switch string(ctx.Path()) {
	case "/slow":
		ms, _ := strconv.Atoi(string(ctx.QueryArgs().Peek("ms")))
		time.Sleep(time.Duration(ms) * time.Millisecond)
		ctx.SetBodyString("slow")
	case "/gate": // answers when a file exists
		waitFor(string(ctx.QueryArgs().Peek("file")))
	case "/hold":
		holdUntil(string(ctx.QueryArgs().Peek("file")))
	case "/client":
		ctx.SetBodyString(ctx.RemoteAddr().String())
	case "/count":
		hits := shared.Must(shared.Default().Counter("hits"))
		hits.Inc()
		fmt.Fprint(ctx, hits.Value())
	case "/environment":
		ctx.SetBodyString(strings.Join(os.Environ(), "\n"))
	case "/grandchild":
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), roleVariable+"=grandchild")
		out, err := c.CombinedOutput()
		fmt.Fprintf(ctx, "%s %v", out, err)
	case "/cpus":
		var set unix.CPUSet
		unix.SchedGetaffinity(0, &set)
		for cpu := range 1024 {
			if set.IsSet(cpu) {
				fmt.Fprint(ctx, cpu, " ")
			}
		}
		fmt.Fprintf(ctx, "slot %d, %d CPUs", info.Slot, runtime.NumCPU())
	case "/file":
		text, err := os.ReadFile(string(ctx.QueryArgs().Peek("name")))
		fmt.Fprintf(ctx, "%s%v", text, err)
	case "/config":
		ctx.SetBody(info.Config)
	case "/hoard":
		fmt.Fprint(ctx, hoard(ctx.QueryArgs().GetUintOrZero("free"), string(ctx.QueryArgs().Peek("until"))))
	case "/crash":
		os.Exit(3)
	default:
		if handleInvariant(ctx) {
			return
		}
		fmt.Fprintf(ctx, "%d %d %d %v", os.Getpid(), info.Slot, info.Generation, IsChild())
	}
}

// hoard takes all descriptors but some, and keeps them until a file exists. It returns how many
// it took.
func hoard(free int, until string) int {
	var all []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	kept := all[:max(len(all)-free, 0)]
	for _, fd := range all[len(kept):] {
		unix.Close(fd)
	}
	go func() {
		waitFor(until)
		for _, fd := range kept {
			unix.Close(fd)
		}
	}()
	return len(kept)
}

// spoilMemory replaces the segment that a worker with one socket has inherited.
func spoilMemory() error {
	other, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer other.Close()
	const memory = 6 // after the socket, the control socket and the lifeline
	return unix.Dup3(int(other.Fd()), memory, unix.O_CLOEXEC)
}

// fillLog makes stderr, also of the workers, a full pipe. When the file gate exists,
// the pipe is copied to stdout.
func fillLog(gate string) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	for _, err := unix.Write(pipe[1], make([]byte, 4096)); err != unix.EAGAIN; _, err = unix.Write(pipe[1], []byte("\n")) {
		if err != nil {
			return err
		}
	}
	unix.SetNonblock(pipe[1], false)
	if err := unix.Dup3(pipe[1], 2, 0); err != nil {
		return err
	}
	unix.Close(pipe[1])
	reader := os.NewFile(uintptr(pipe[0]), "log")
	go func() {
		waitFor(gate)
		io.Copy(os.Stdout, reader)
	}()
	return nil
}
