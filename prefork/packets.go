package prefork

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/supervise"
)

// packetSecretSize is the size of WorkerInfo.PacketSecret.
const packetSecretSize = 32

var (
	errPacketsNeedLinux   = errors.New("sluice: PacketListen works on Linux only")
	errPacketsNeedSteer   = errors.New("sluice: PacketListen needs SteerPackets")
	errPacketsNeedAddress = errors.New(`sluice: PacketListen needs a "host:port" where ListenAndServe has another kind of address`)
)

// packets opens the UDP sockets of PacketListen, in one group for each address.
type packets struct {
	prefork *Prefork
	tcp     func() []net.Addr // those of the TCP sockets, once they are open
	secret  []byte
	groups  []packetGroup
}

// A packetGroup is the sockets of one address.
type packetGroup struct {
	network, address string
	hasSockets       bool // address is complete
}

// openPackets has the workers of c get the sockets of p's PacketListen, if there are any.
func (p *Prefork) openPackets(c *supervise.Config, tcp func() []net.Addr, held *supervise.Held) error {
	s, err := p.newPackets(tcp, held)
	if s != nil {
		c.Packets, c.PacketSecret, c.Steer = s.open, s.secret, s.steer
	}
	return err
}

// newPackets returns the sockets of p's PacketListen; nil if there are none.
func (p *Prefork) newPackets(tcp func() []net.Addr, held *supervise.Held) (*packets, error) {
	switch {
	case len(p.PacketListen) == 0:
		return nil, nil
	case !hasSlotSockets:
		return nil, errPacketsNeedLinux
	case p.SteerPackets == nil:
		return nil, errPacketsNeedSteer
	}
	s := &packets{prefork: p, tcp: tcp}
	for _, a := range p.PacketListen {
		s.groups = append(s.groups, packetGroup{network: p.packetNetwork(), address: a})
	}
	if held != nil {
		s.secret = held.PacketSecret()
	}
	if s.secret != nil {
		return s, s.resume(held.Packets(0))
	}
	s.secret = make([]byte, packetSecretSize)
	rand.Read(s.secret) // never fails
	return s, nil
}

// packetNetwork returns the network of PacketListen.
func (p *Prefork) packetNetwork() string { return strings.Replace(p.network(), "tcp", "udp", 1) }

// packetsFree returns an error if another process has the port of a TCP address for UDP.
func (p *Prefork) packetsFree(tcp net.Addr) error {
	c, err := listen.Packet(context.Background(), p.packetNetwork(), tcp.String(), false)
	if err != nil {
		return err
	}
	return c.Close()
}

// resume takes the addresses from the sockets that another master has made. The caller
// keeps files.
func (s *packets) resume(files []*os.File) error {
	if len(files) == 0 {
		return nil // it had none
	}
	if len(files) != len(s.groups) {
		return errOtherAddresses
	}
	for i, f := range files {
		c, err := net.FilePacketConn(f) // a duplicate
		if err != nil {
			return err
		}
		addr, isUDP := c.LocalAddr().(*net.UDPAddr)
		c.Close()
		g := &s.groups[i]
		if g.address != "" {
			want, err := net.ResolveUDPAddr(g.network, g.address)
			if err != nil || !isUDP || want.Port != 0 && want.Port != addr.Port {
				return errOtherAddresses
			}
		}
		g.address, g.hasSockets = addr.String(), true
	}
	return nil
}

// open returns the sockets with an index, one of each group. The caller owns them.
func (s *packets) open(int) (files []*os.File, err error) {
	for i := range s.groups {
		f, err := s.groups[i].open(s)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// open adds a socket to the group.
func (g *packetGroup) open(s *packets) (*os.File, error) {
	if !g.hasSockets {
		if err := g.begin(s); err != nil {
			return nil, err
		}
	}
	c, err := listen.Packet(context.Background(), g.network, g.address, true)
	if err != nil {
		return nil, err
	}
	defer c.Close() // the file is a duplicate
	g.address, g.hasSockets = c.LocalAddr().String(), true
	return c.File()
}

// begin finds the address of a group without sockets, and makes sure that no other
// process has it.
func (g *packetGroup) begin(s *packets) error {
	if g.address == "" {
		all := s.tcp()
		if len(all) == 0 || all[0].Network() != "tcp" {
			return errPacketsNeedAddress
		}
		g.address = all[0].String()
	}
	if _, port, _ := net.SplitHostPort(g.address); port == "" || port == "0" {
		return nil
	}
	c, err := listen.Packet(context.Background(), g.network, g.address, false)
	if err != nil {
		return err
	}
	return c.Close()
}

// steer passes on which workers read their sockets.
func (s *packets) steer(sockets []*os.File, ready, leaving []int) error {
	for i, socket := range sockets {
		if err := s.prefork.SteerPackets(socket, ready, leaving, s.secret); err != nil {
			return fmt.Errorf("SteerPackets for %s: %w", s.groups[i].address, err)
		}
	}
	return nil
}
