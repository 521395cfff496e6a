package http3

import (
	"errors"

	"golang.org/x/net/bpf"
)

// errNobodyReads: no socket of a group has a reader.
var errNobodyReads = errors.New("http3: no socket of the group is read")

// steering returns the classic BPF program that selects the socket of a packet in a
// group of sockets of one port (SO_REUSEPORT). The kernel numbers the sockets in the
// order in which they joined the group.
//
// A packet of a connection goes to the socket that has issued the connection's id, if
// that socket is in ready or leaving. All other packets go to one of ready, or of leaving
// if ready is empty: the packets of new connections, whose ids their clients have
// chosen, and those of connections whose process is gone. A process that gets one of
// the latter answers it with a stateless reset.
//
// A load beyond the packet's end selects socket 0.
func steering(mark byte, ready, leaving []int) ([]bpf.RawInstruction, error) {
	known := append(append([]int(nil), ready...), leaving...)
	if len(known) == 0 {
		return nil, errNobodyReads
	}
	for _, index := range known {
		if index < 0 || index >= maxSockets {
			return nil, errors.New("http3: a group has at most 256 sockets")
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	// Skips of conditional jumps have 8 bits, so the way over the list of known
	// sockets is a plain Jump, which has 32.
	toOthers := func(from int) bpf.Instruction {
		return bpf.Jump{Skip: uint32(knownAt + 2*len(known) - from - 1)}
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x80, SkipTrue: 2},
		// A short header: the id follows the first byte.
		bpf.LoadAbsolute{Off: 1, Size: 1},
		bpf.Jump{Skip: knownAt - 4},
		// A long header: a version, and the id after its length.
		bpf.LoadAbsolute{Off: 5, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: idLength, SkipTrue: 1},
		toOthers(6),
		bpf.LoadAbsolute{Off: 7, Size: 1},
		bpf.TAX{},
		bpf.LoadAbsolute{Off: 8, Size: 1},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.TAX{},
		bpf.LoadAbsolute{Off: 6, Size: 1},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(mark), SkipTrue: 1},
		toOthers(15),
		bpf.LoadAbsolute{Off: 6, Size: 1},
	}
	program = appendChoice(program, known, known)
	// Random bytes of an id, which are at the same place in both headers.
	program = append(program,
		bpf.LoadAbsolute{Off: 6, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpMod, Val: uint32(len(ready))},
	)
	places := make([]int, len(ready))
	for i := range places {
		places[i] = i
	}
	program = appendChoice(program, places, ready)
	program = append(program, bpf.RetConstant{Val: uint32(ready[0])}) // not reached
	return bpf.Assemble(program)
}

// knownAt is where the list of known sockets begins in a program.
const knownAt = 17

// appendChoice appends instructions that return results[i] if A is values[i], and go on
// if it is none of them.
func appendChoice(program []bpf.Instruction, values, results []int) []bpf.Instruction {
	for i, value := range values {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(value), SkipFalse: 1},
			bpf.RetConstant{Val: uint32(results[i])},
		)
	}
	return program
}
