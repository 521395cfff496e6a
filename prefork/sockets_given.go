package prefork

import (
	"errors"
	"net"
	"os"
	"slices"

	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// errOtherAddresses: a master cannot go on with the sockets of another one.
var errOtherAddresses = errors.New("sluice: the new program listens on other addresses: stop the old one and start the new one")

// inherit takes the sockets that systemd has passed for the endpoints, which are for so
// many workers. Those that it has stored for an earlier master are one for each slot
// again. Others, of a socket unit, are shared by all workers, because only systemd's
// user could open more of them.
// isFirst says that no master of this service was before, so that what systemd has stored
// and this master does not claim is of no use.
func (s *sockets) inherit(service *systemd.Service, workers int, log Logger, isFirst bool) error {
	s.service, s.workers, s.log = service, workers, log
	for i, e := range s.endpoints {
		var err error
		if s.given[i], err = service.Claim(e.network, e.address); err != nil {
			return err
		}
		for _, socket := range s.given[i] {
			if _, isTCP := socket.Addr.(*net.TCPAddr); isTCP && (socket.Name != systemd.Stored || !socket.IsShareable()) {
				s.perSlot = false
			}
		}
	}
	others, err := service.Close(isFirst)
	for _, socket := range others {
		log.Printf("systemd has passed a socket on which nothing listens: %v", socket)
	}
	if err != nil {
		log.Printf("%v", err)
	}
	return nil
}

// resume takes the addresses from the sockets of the first slot, which another master has
// made. They must be those of the endpoints. The caller keeps files.
func (s *sockets) resume(files []*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addrs []net.Addr
	for i, e := range s.endpoints {
		if n := s.givenFor(i, 0); n > 0 {
			if len(files) < n {
				return errOtherAddresses
			}
			addrs = append(addrs, s.givenAddrs(i)...)
			files = files[n:]
			continue
		}
		if len(files) == 0 {
			return errOtherAddresses
		}
		addr, err := s.resumeOne(i, e, files[0])
		if err != nil {
			return err
		}
		addrs, files = append(addrs, addr), files[1:]
	}
	if len(files) > 0 {
		return errOtherAddresses
	}
	s.addrs = addrs
	return nil
}

// resumeOne takes the socket of endpoint i.
func (s *sockets) resumeOne(i int, e endpoint, file *os.File) (net.Addr, error) {
	ln, err := net.FileListener(file) // a duplicate
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	switch addr := ln.Addr().(type) {
	case *net.UnixAddr:
		if e.network != "unix" || addr.Name != e.address {
			return nil, errOtherAddresses
		}
		s.files = append(s.files, listen.OwnFile(ln.(*net.UnixListener), addr.Name))
		s.unix[i], err = listen.File(ln)
		return addr, err
	case *net.TCPAddr:
		want, err := net.ResolveTCPAddr(e.network, e.address)
		if err != nil || want.Port != 0 && want.Port != addr.Port || len(want.IP) > 0 && !want.IP.Equal(addr.IP) && !want.IP.IsUnspecified() {
			return nil, errOtherAddresses
		}
		s.endpoints[i].address = addr.String()
		return addr, nil
	}
	return nil, errOtherAddresses
}

// givenFor counts the sockets of endpoint i that systemd has passed for a slot.
func (s *sockets) givenFor(i, slot int) int {
	n := 0
	for number, socket := range s.given[i] {
		if s.isGivenFor(number, socket, slot) {
			n++
		}
	}
	return n
}

// isGivenFor reports whether the socket with a number among those of its endpoint is for a slot.
func (s *sockets) isGivenFor(number int, socket systemd.Socket, slot int) bool {
	_, isTCP := socket.Addr.(*net.TCPAddr)
	return !isTCP || !s.perSlot || number%s.workers == slot
}

// store gives systemd a copy of a slot's socket, so that the connections that wait in it
// survive a restart of the service.
func (s *sockets) store(socket *os.File) {
	if s.service == nil {
		return
	}
	if err := s.service.Store(socket); err != nil {
		s.log.Printf("%v", err)
	}
}

// isGiven reports whether systemd has passed sockets for endpoint i.
func (s *sockets) isGiven(i int) bool { return len(s.given[i]) > 0 }

// givenAddrs returns the addresses of the sockets of endpoint i that systemd has passed.
func (s *sockets) givenAddrs(i int) (addrs []net.Addr) {
	for _, socket := range s.given[i] {
		isThere := slices.ContainsFunc(addrs, func(a net.Addr) bool {
			return a.Network() == socket.Addr.Network() && a.String() == socket.Addr.String()
		})
		if !isThere { // sockets of several slots have the same one
			addrs = append(addrs, socket.Addr)
		}
	}
	return addrs
}

// openGiven returns duplicates of the sockets of endpoint i that systemd has passed for a
// slot. If there are more than slots, a slot gets several: connections may wait in each.
func (s *sockets) openGiven(i, slot int) (files []*os.File, err error) {
	for n, socket := range s.given[i] {
		if !s.isGivenFor(n, socket, slot) {
			continue
		}
		f, err := duplicate(socket.File)
		if err != nil {
			for _, open := range files {
				open.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// closeGiven closes this process's copies of what systemd has passed.
func (s *sockets) closeGiven() {
	for _, given := range s.given {
		for _, socket := range given {
			socket.File.Close()
		}
	}
	clear(s.given)
}
