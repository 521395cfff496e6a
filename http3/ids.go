package http3

import (
	"crypto/rand"

	"github.com/quic-go/quic-go"
)

// idLength is the length of the connection ids that a socket of a group issues:
// byte 0 is the socket's index, byte 1 is byte 0 ^ byte 2 ^ the group's mark, and the
// others are random. The program of steer.go reads them.
const idLength = 10

// maxSockets is the largest number of sockets in a group: an index is one byte.
const maxSockets = 256

// An idGenerator makes the connection ids of one socket of a group. It implements
// quic.ConnectionIDGenerator. Several goroutines may use it.
type idGenerator struct {
	index byte
	mark  byte
}

// ConnectionIDLen returns the length of the ids, in bytes.
func (g idGenerator) ConnectionIDLen() int { return idLength }

// GenerateConnectionID returns a new id. The error is always nil.
func (g idGenerator) GenerateConnectionID() (quic.ConnectionID, error) {
	var id [idLength]byte
	rand.Read(id[2:]) // never fails
	id[0] = g.index
	id[1] = g.index ^ id[2] ^ g.mark
	return quic.ConnectionIDFromBytes(id[:]), nil
}
