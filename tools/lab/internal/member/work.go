//go:build linux

package member

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// messageSize is that of the seed: a time stamp.
const messageSize = 8

// handler returns the handler of a TCP server.
func (s *server) handler(work scenario.Workload) tcp.Handler {
	return func(c *tcp.Conn, in []byte) (int, error) {
		n := len(in) / messageSize
		used := n * messageSize
		s.requests.Add(uint64(n))
		switch work.Kind {
		case scenario.Discard:
			return used, nil
		case scenario.Echo:
		default:
			for i := range n {
				labour(work, in[i*messageSize:])
			}
		}
		if used == 0 {
			return 0, nil
		}
		return c.Write(in[:used])
	}
}

// answer returns the handler of an HTTP server.
func (s *server) answer(work scenario.Workload) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		n := s.requests.Add(1)
		if work.Kind != scenario.Echo {
			labour(work, seedOf(n))
		}
		ctx.SetBodyString("pingpong")
	}
}

// seedOf returns a message where a request has none that differs.
func seedOf(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// labour is what a handler does before it answers.
func labour(work scenario.Workload, message []byte) {
	switch work.Kind {
	case scenario.IO:
		time.Sleep(work.Sleep)
	case scenario.Pow:
		prove(binary.LittleEndian.Uint64(message), work.Bits)
	}
}

// prove returns the first number with which seed has a hash that begins with so
// many zero bits.
func prove(seed uint64, zeros int) (nonce uint64) {
	var block [2 * messageSize]byte
	binary.LittleEndian.PutUint64(block[:], seed)
	for ; ; nonce++ {
		binary.LittleEndian.PutUint64(block[messageSize:], nonce)
		sum := sha256.Sum256(block[:])
		if bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= zeros {
			return nonce
		}
	}
}
