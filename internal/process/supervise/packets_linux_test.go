package supervise

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
)

// packetFile returns a UDP socket.
func packetFile(int) ([]*os.File, error) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f, err := c.(*net.UDPConn).File()
	return []*os.File{f}, err
}

// Only one worker has an index, the one that was freed last is given first, and there is
// an end to them.
func TestPacketIndices(t *testing.T) {
	m := &Master{config: Config{Packets: packetFile, PacketSecret: []byte("secret")}}
	s := &spawner{master: m}
	m.spawner = s
	defer s.packets.close()
	give := func(k key) int {
		l, files, err := s.packetFiles(k)
		if err != nil || len(files) != 1 || l.Files != 1 || string(l.Secret) != "secret" {
			t.Fatalf("%v: %+v, %v", k, l, err)
		}
		return l.Index
	}
	for slot := range 4 {
		if index := give(key{slot, 1}); index != slot {
			t.Fatalf("slot %d: index %d", slot, index)
		}
	}
	s.forget(key{3, 1})
	s.forget(key{1, 1})
	s.forget(key{1, 1}) // nobody has it
	if a, b, c := give(key{1, 2}), give(key{2, 2}), give(key{3, 2}); a != 1 || b != 3 || c != 4 {
		t.Errorf("indices %d, %d, %d", a, b, c)
	}
	for index := 5; index < maxPackets; index++ {
		give(key{index, 1})
	}
	if _, _, err := s.packetFiles(key{1, 9}); err == nil {
		t.Error("there is no end")
	}
	s.forget(key{7, 1})
	if index := give(key{1, 10}); index != 7 {
		t.Errorf("index %d", index)
	}
}

// If no socket can be made, the fleet does not start. If the first call of Steer fails, it
// ends.
func TestPacketErrors(t *testing.T) {
	want := errors.New("not today")
	steer := func([]*os.File, []int, []int) error { return want }
	for name, change := range map[string]func(*Config){
		"Packets": func(c *Config) { c.Packets = func(int) ([]*os.File, error) { return nil, want } },
		"too many": func(c *Config) {
			want, c.Packets = nil, func(int) ([]*os.File, error) { return make([]*os.File, maxDescriptors+1), nil }
		},
		"Steer": func(c *Config) { c.Packets, c.Steer = packetFile, steer },
	} {
		want = errors.New("not today")
		f := startFleet(t, change)
		if err := f.end(); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Steer is told of workers that are ready or finish, and of no others, when they change.
func TestSteer(t *testing.T) {
	s := newScript(t, Config{Workers: 2, Sockets: noSockets, RecoverThreshold: 9})
	var ready, leaving []int
	calls := 0
	m := &Master{config: Config{Packets: packetFile, Steer: func(sockets []*os.File, r, l []int) error {
		ready, leaving, calls = r, l, calls+1
		return nil
	}}}
	m.spawner = &spawner{master: m}
	defer m.spawner.packets.close()
	for _, k := range []key{{0, 1}, {1, 1}, {0, 2}} {
		if _, _, err := m.spawner.packetFiles(k); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, wantReady, wantLeaving []int, wantCalls int) {
		t.Helper()
		m.steer(s.fleet)
		m.steer(s.fleet) // nothing has changed
		if !slices.Equal(ready, wantReady) || !slices.Equal(leaving, wantLeaving) || calls != wantCalls {
			t.Errorf("%s: ready %v, leaving %v, after %d calls", when, ready, leaving, calls)
		}
	}
	expect("before the start", nil, nil, 0)
	s.start()
	expect("all are ready", []int{0, 1}, nil, 1)
	s.feed(event{kind: evRestart, version: &version{cause: CauseRestart}})
	expect("the successor boots", []int{0, 1}, nil, 1)
	s.feed(event{kind: evSpawned, worker: key{0, 2}, pid: 99})
	s.feed(event{kind: evReady, worker: key{0, 2}})
	expect("the successor is ready", []int{1, 2}, []int{0}, 2)
	s.exit(0, 1)
	expect("its predecessor has ended", []int{1, 2}, nil, 3)
	s.exit(1, 1)
	expect("a worker has died", []int{2}, nil, 4)
	s.exit(0, 2)
	expect("none is left", []int{2}, nil, 4)
}
