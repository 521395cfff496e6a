package prefork

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withPackets has the workers answer packets, and the master steer them by their first byte:
// to the worker with that index, or, if it is 255 or of no worker, to a ready one. Of ready
// workers, the last one in the list is the one.
func withPackets(p *Prefork) {
	p.PacketListen = []string{""}
	p.SteerPackets = func(socket *os.File, ready, leaving []int, _ []byte) error {
		fmt.Println("steer", ready, leaving)
		filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS}}
		for _, index := range append(append([]int(nil), ready...), leaving...) {
			filter = append(filter,
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(index)},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(index)})
		}
		if len(ready) == 0 {
			ready = leaving
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(ready[len(ready)-1])})
		return unix.SetsockoptSockFprog(int(socket.Fd()), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}
	start := p.OnWorkerStart
	p.OnWorkerStart = func(info WorkerInfo) error {
		if len(info.Packets) != 1 {
			return fmt.Errorf("%d sockets for packets", len(info.Packets))
		}
		c, err := net.FilePacketConn(info.Packets[0])
		if err != nil {
			return err
		}
		if err := errors.Join(info.Packets[0].Close(), start(info)); err != nil {
			return err
		}
		go func() {
			buffer := make([]byte, 16)
			for {
				_, from, err := c.ReadFrom(buffer)
				if err != nil {
					return
				}
				fmt.Fprintf(to{c, from}, "%d %d %d %x", info.Slot, info.Generation, info.PacketIndex, info.PacketSecret)
			}
		}()
		return nil
	}
}

// to writes packets to an address.
type to struct {
	net.PacketConn
	addr net.Addr
}

func (t to) Write(p []byte) (int, error) { return t.WriteTo(p, t.addr) }

// newPacket is the first byte of packets that any ready worker may have.
const newPacket = 255

// A reader is the worker that has answered a packet.
type reader struct {
	slot, generation, index int
	secret                  string
}

// send sends a packet from a new port until a worker answers.
func (f *fleet) send(first byte) (r reader) {
	f.t.Helper()
	c, err := net.Dial("udp4", f.addr(0))
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	buffer := make([]byte, 256)
	until(f.t, "a worker answers a packet", func() bool {
		c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Write([]byte{first}); err != nil {
			return false
		}
		n, err := c.Read(buffer)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(buffer[:n]), &r.slot, &r.generation, &r.index, &r.secret)
		return err == nil
	})
	return r
}

// Workers have sockets of their own, also when they are replaced, die, or get another master.
func TestPackets(t *testing.T) {
	for name, s := range map[string]setup{
		"master":       {},
		"in place":     {Upgrade: true},
		"another user": {User: "nobody"},
		"producer":     {BareProducer: true, AllFiles: true},
	} {
		t.Run(name, func(t *testing.T) {
			if s.User != "" && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			s.Workers, s.Packets, s.Admin, s.Threshold, s.Window = 2, true, "127.0.0.1:0", 9, time.Minute
			s.Linger, s.Drain = 10*time.Millisecond, patience
			f := start(t, s, true)
			first := f.send(0)
			if other := f.send(1); first.slot == other.slot || other.index != 1 || first.index != 0 || first.secret != other.secret || len(first.secret) != 2*packetSecretSize {
				t.Fatalf("%+v and %+v", first, other)
			}

			f.restartBusy(s.Upgrade)

			// The successor of a worker that died has its socket.
			dead := f.send(newPacket)
			f.killSlot(dead.slot)
			until(t, "the successor has the socket", func() bool {
				r := f.send(byte(dead.index))
				return r.slot == dead.slot && r.generation == 3 && r.index == dead.index
			})
			if r := f.send(byte(dead.index)); r.secret != first.secret {
				t.Errorf("the secret was %s, now %s", first.secret, r.secret)
			}

			// Restarts use a bounded number of sockets.
			for range 5 {
				f.restart()
			}
			for _, line := range f.printed("steer ") {
				if strings.ContainsAny(line, "6789") {
					t.Errorf("more than 2 × 2 + 2 sockets: %s", line)
				}
			}
			f.signal(syscall.SIGTERM)
			if status := f.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if _, err := net.ListenPacket("udp4", f.addr(0)); err != nil {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// restartBusy restarts the first workers while one at least has a request. That worker keeps
// its packets until it ends, also under another master, and its successor gets new ones.
func (f *fleet) restartBusy(withOtherMaster bool) {
	f.t.Helper()
	folder := f.t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil { // another user's worker looks for the gate
		f.t.Fatal(err)
	}
	gate := filepath.Join(folder, "gate")
	c, err := net.Dial("tcp", f.addr(0))
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /gate?file=%s HTTP/1.1\r\nHost: x\r\n\r\n", gate)
	until(f.t, "the request is handled", func() bool {
		return slices.ContainsFunc(statusAt(f.t, "tcp", f.admin()).Workers, func(w WorkerStatus) bool { return w.InFlight > 0 })
	})
	f.restart()
	until(f.t, "the first worker without a request has ended", func() bool {
		first := 0
		for _, w := range statusAt(f.t, "tcp", f.admin()).Workers {
			if w.Generation == 1 {
				first++
			}
		}
		return first == 1
	})
	leaving := -1
	for index := range 2 {
		if r := f.send(byte(index)); r.generation == 1 && r.index == index {
			leaving = index
		} else if r.generation != 2 {
			f.t.Errorf("index %d: %+v", index, r)
		}
	}
	if r := f.send(newPacket); r.generation != 2 || leaving < 0 {
		f.t.Errorf("index %d finishes, new packets: %+v", leaving, r)
	}
	if withOtherMaster {
		f.killManager()
		if r := f.send(byte(leaving)); r.generation != 1 || r.index != leaving {
			f.t.Errorf("with another master: %+v", r)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	until(f.t, "packets of a worker that has ended go to others", func() bool { return f.send(byte(leaving)).generation == 2 })
}

// killSlot kills the worker that serves a slot.
func (f *fleet) killSlot(slot int) {
	f.t.Helper()
	for _, w := range statusAt(f.t, "tcp", f.admin()).Workers {
		if w.Slot == slot && w.Phase == "ready" {
			syscall.Kill(w.PID, syscall.SIGKILL)
			return
		}
	}
	f.t.Fatalf("no worker serves slot %d", slot)
}

// A fleet does not start if another process has the port, or if the packets cannot be steered.
func TestPacketsErrors(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := start(t, setup{Workers: 2, Packets: true, Addr: taken.LocalAddr().String()}, false)
	if status := f.wait(); status != 1 || f.count("address already in use") == 0 {
		t.Errorf("a port that is taken: exit status %d", status)
	}
	f = start(t, setup{Workers: 2, Packets: true, Addr: "unix:" + filepath.Join(t.TempDir(), "socket")}, false)
	if status := f.wait(); status != 1 || f.count(errPacketsNeedAddress.Error()) == 0 {
		t.Errorf("a unix socket: exit status %d", status)
	}
	p := &Prefork{PacketListen: []string{""}}
	if err := p.ListenAndServe("127.0.0.1:0"); err != errPacketsNeedSteer {
		t.Errorf("without SteerPackets: %v", err)
	}
	p.SteerPackets = func(*os.File, []int, []int, []byte) error { return nil }
	p.PacketListen = []string{"127.0.0.1:0", "127.0.0.1:0"}
	s, err := p.newPackets(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := s.open(0)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d sockets, %v", len(files), err)
	}
	for _, f := range files {
		defer f.Close()
	}
	for _, listen := range [][]string{{s.groups[0].address}, {"127.0.0.1:0", "127.0.0.1:1"}} {
		p.PacketListen = listen
		other, err := p.newPackets(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.resume(files); err != errOtherAddresses {
			t.Errorf("%q instead of %v: %v", listen, s.groups, err)
		}
	}
	p.PacketListen = []string{s.groups[0].address, "127.0.0.1:0"}
	if other, err := p.newPackets(nil, nil); err != nil || other.resume(files) != nil || other.groups[1] != s.groups[1] {
		t.Errorf("the same addresses: %v, %v", other, err)
	}
}

// The system chooses another port if UDP cannot have the one that TCP has got. With an address that is
// complete there is no other.
func TestPortForBoth(t *testing.T) {
	taken := 3
	var tried []string
	p := &Prefork{PacketListen: []string{""}, Network: "tcp4"}
	for _, shared := range []bool{false, true} {
		p.SharedSockets = shared
		s, err := p.newSockets("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.isFree = func(tcp net.Addr) error {
			if tried = append(tried, tcp.String()); len(tried) > taken {
				return p.packetsFree(tcp)
			}
			c, err := net.ListenPacket("udp4", tcp.String())
			if err != nil {
				t.Error(err)
			}
			defer c.Close()
			return p.packetsFree(tcp)
		}
		if err := s.probe(); err != nil || len(tried) < taken+1 || s.endpoints[0].address != tried[len(tried)-1] {
			t.Errorf("shared %v: %q of %q, %v", shared, s.endpoints[0].address, tried, err)
		}
		slices.Sort(tried)
		if n := len(tried); len(slices.Compact(tried)) != n {
			t.Errorf("a port was tried twice: %q", tried)
		}
		s.close()
		tried = nil
	}
	taken = portAttempts
	s, err := p.newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.isFree = func(net.Addr) error { taken--; return syscall.EADDRINUSE }
	if err := s.probe(); !errors.Is(err, syscall.EADDRINUSE) || taken != 0 {
		t.Errorf("%v, %d attempts are left", err, taken)
	}
}
