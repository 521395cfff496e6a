package supervise

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
)

// maxPackets is the largest number of sockets in a group of Config.Packets.
const maxPackets = 256

// packetSockets are the sockets of Config.Packets, and which worker has them. They stay
// open until Run returns: the kernel numbers the sockets of a group, and gives a closed
// one's number to another.
type packetSockets struct {
	mu      sync.Mutex
	sockets [][]*os.File // by index
	owners  []key        // by index; the zero key: no worker
	free    []int        // indices without an owner, the one that was freed last at the end

	// Used by Run's goroutine only.
	ready, leaving []int // of the last call of Config.Steer
	isSteered      bool  // Steer has succeeded
}

// packetFiles returns the sockets that k inherits, if there are any.
func (s *spawner) packetFiles(k key) (*packetLayout, []*os.File, error) {
	c := &s.master.config
	if c.Packets == nil {
		return nil, nil, nil
	}
	index, files, err := s.takePackets(k)
	return &packetLayout{Files: len(files), Index: index, Secret: c.PacketSecret}, files, err
}

// takePackets gives k the sockets of an index that no other worker has. The one that was freed
// last comes first: packets may wait in the sockets of a worker that died.
func (s *spawner) takePackets(k key) (index int, files []*os.File, err error) {
	p := &s.packets
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		if err := s.openPacketsLocked(); err != nil {
			return 0, nil, err
		}
	}
	index = p.free[len(p.free)-1]
	if err := s.put(fmt.Sprint(prefixPackets, index), []byte(k.id()), p.sockets[index]...); err != nil {
		return 0, nil, err
	}
	p.free = p.free[:len(p.free)-1]
	p.owners[index] = k
	return index, p.sockets[index], nil
}

// openPacketsLocked makes the sockets of the next index.
func (s *spawner) openPacketsLocked() error {
	p := &s.packets
	index := len(p.sockets)
	if index == maxPackets {
		return fmt.Errorf("sluice: %d sockets for packets are in use, and there are no more", index)
	}
	files, err := s.master.config.Packets(index)
	if err != nil {
		return err
	}
	if len(files) > maxDescriptors {
		closeFiles(files)
		return fmt.Errorf("sluice: %d sockets for packets with one index, at most %d", len(files), maxDescriptors)
	}
	held, err := holdAll(files)
	if err != nil {
		return err
	}
	p.sockets, p.owners, p.free = append(p.sockets, held), append(p.owners, key{}), append(p.free, index)
	return nil
}

// freePackets takes back what k has.
func (p *packetSockets) freePackets(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index := slices.Index(p.owners, k); index >= 0 {
		p.owners[index] = key{}
		p.free = append(p.free, index)
	}
}

// keepPacketSecret has the Holder keep Config.PacketSecret, if there is one.
func (m *Master) keepPacketSecret() error {
	if m.config.PacketSecret == nil {
		return nil
	}
	return m.config.Holder.Put(entryPacketSecret, m.config.PacketSecret)
}

// takePackets takes what another Master has left of Config.Packets, if there are any.
func (m *Master) takePackets(held *Held) error {
	switch {
	case m.config.Packets == nil:
		return nil
	case held.PacketSecret() == nil: // the program before had none
		return m.keepPacketSecret()
	}
	return m.spawner.packets.resume(held, func(k key) bool { return m.spawner.processes[k] != nil })
}

// resume takes the sockets that another Master has left. isAlive reports whether a worker
// still runs.
func (p *packetSockets) resume(held *Held, isAlive func(key) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for index := 0; len(held.Packets(index)) > 0; index++ {
		name := fmt.Sprint(prefixPackets, index)
		owner, err := keyOf(string(held.Entries[name].Data))
		if err != nil {
			return fmt.Errorf("sluice: the owner of sockets for packets: %w", err)
		}
		if !isAlive(owner) {
			owner, p.free = key{}, append(p.free, index)
		}
		p.sockets, p.owners = append(p.sockets, held.Take(name)), append(p.owners, owner)
	}
	p.isSteered = true
	return nil
}

// first returns the sockets of index 0, which exist.
func (p *packetSockets) first() []*os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets[0]
}

// close closes the sockets.
func (p *packetSockets) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, files := range p.sockets {
		closeFiles(files)
	}
	p.sockets, p.owners, p.free = nil, nil, nil
}

// steer calls Config.Steer if the workers that it is told of have changed. Run's goroutine
// calls it, before it tells workers anything.
func (m *Master) steer(f *fleet) {
	p := &m.spawner.packets
	ready, leaving := p.readers(f)
	if len(ready)+len(leaving) == 0 || slices.Equal(ready, p.ready) && slices.Equal(leaving, p.leaving) {
		return
	}
	p.ready, p.leaving = ready, leaving
	switch err := m.config.Steer(p.first(), ready, leaving); {
	case err == nil:
		p.isSteered = true
	case p.isSteered:
		m.config.Logger.Printf("packets may go to other workers than they should: %v", err)
	default:
		m.failOn(err)
	}
}

// readers returns the indices of the workers that are ready, and of those that finish, in
// order. Of a worker that hangs or boots it returns none.
func (p *packetSockets) readers(f *fleet) (ready, leaving []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for index, k := range p.owners {
		if _, w := f.find(k); w == nil {
			continue
		} else if w.phase == PhaseReady {
			ready = append(ready, index)
		} else if w.phase == PhaseDraining {
			leaving = append(leaving, index)
		}
	}
	return ready, leaving
}

// Packets returns the sockets of an index of Config.Packets, which stay those of h; nil if
// there are none.
func (h *Held) Packets(index int) []*os.File {
	return h.Entries[prefixPackets+strconv.Itoa(index)].Files
}

// PacketSecret returns the Config.PacketSecret of the Master before; nil if there is none.
func (h *Held) PacketSecret() []byte { return h.Entries[entryPacketSecret].Data }
