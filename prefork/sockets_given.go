package prefork

import (
	"net"
	"os"

	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// inherit takes the sockets that systemd has passed for the endpoints, which are for so
// many workers. Those that it has stored for an earlier master are one for each slot
// again. Others, of a socket unit, are shared by all workers, because only systemd's
// user could open more of them.
func (s *sockets) inherit(service *systemd.Service, workers int, log Logger) error {
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
	others, err := service.Close()
	for _, socket := range others {
		log.Printf("systemd has passed a socket on which nothing listens: %v", socket)
	}
	if err != nil {
		log.Printf("%v", err)
	}
	return nil
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

// openGiven returns duplicates of the sockets of endpoint i that systemd has passed for a
// slot. If there are more than slots, a slot gets several: connections may wait in each.
func (s *sockets) openGiven(i, slot int) (files []*os.File, addr net.Addr, err error) {
	for n, socket := range s.given[i] {
		addr = socket.Addr
		_, isTCP := addr.(*net.TCPAddr)
		if isTCP && s.perSlot && n%s.workers != slot {
			continue
		}
		f, err := duplicate(socket.File)
		if err != nil {
			for _, open := range files {
				open.Close()
			}
			return nil, nil, err
		}
		files = append(files, f)
	}
	return files, addr, nil
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
