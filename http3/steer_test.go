package http3

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
)

const testMark = 0x5a

// issued returns an id of the socket with an index.
func issued(t testing.TB, index int) []byte {
	t.Helper()
	id, err := idGenerator{byte(index), testMark}.GenerateConnectionID()
	if err != nil {
		t.Fatal(err)
	}
	return id.Bytes()
}

// shortPacket returns a packet with a short header (RFC 9000, section 17.3).
func shortPacket(id []byte) []byte {
	return append(append([]byte{0x40}, id...), make([]byte, 30)...)
}

// longPacket returns a packet with a long header (RFC 9000, section 17.2).
func longPacket(id []byte) []byte {
	p := []byte{0xc0, 0, 0, 0, 1, byte(len(id))}
	p = append(p, id...)
	return append(append(p, 0), make([]byte, 1200)...)
}

// clientsID returns an id that a client has chosen: number decides which socket gets it.
func clientsID(number uint32, length int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, number), make([]byte, length-4)...)
}

// spoiled returns an id whose byte 1 is wrong.
func spoiled(id []byte) []byte {
	id[1] ^= 1
	return id
}

// number returns the bytes of an id by which the program chooses, if its issuer is gone.
func number(id []byte, at int) int { return int(binary.BigEndian.Uint32(id[at:])) }

// route is a packet and the index of the socket that must get it.
type route struct {
	name   string
	packet []byte
	want   int
}

// routesOf returns packets for a group with these sockets.
func routesOf(t testing.TB, ready, leaving []int) []route {
	var all []route
	takes := ready
	if len(takes) == 0 {
		takes = leaving
	}
	for _, index := range slices.Concat(ready, leaving) {
		all = append(all,
			route{"short, known", shortPacket(issued(t, index)), index},
			route{"short, known, as small as can be", append([]byte{0x40}, issued(t, index)...), index},
			route{"long, known", longPacket(issued(t, index)), index})
	}
	for index := range maxSockets {
		if slices.Contains(ready, index) || slices.Contains(leaving, index) {
			continue
		}
		id := issued(t, index)
		all = append(all,
			route{"short, its issuer is gone", shortPacket(id), takes[number(id, 5)%len(takes)]},
			route{"long, its issuer is gone", longPacket(id), takes[number(id, 0)%len(takes)]})
	}
	for i := range 2 * len(takes) {
		for _, length := range []int{8, 10, 18, 20} {
			id := clientsID(uint32(0x01000000+i), length) // byte 1 is wrong for testMark
			all = append(all, route{"long, a client's id", longPacket(id), takes[number(id, 0)%len(takes)]})
		}
	}
	for _, index := range slices.Concat(ready, leaving) {
		id := spoiled(issued(t, index))
		all = append(all, route{"long, of another mark", longPacket(id), takes[number(id, 0)%len(takes)]})
		longer := append(issued(t, index), 0)
		all = append(all, route{"long, of another length", longPacket(longer), takes[number(longer, 0)%len(takes)]})
	}
	return append(all,
		route{"one byte, short", []byte{0x40}, 0},
		route{"one byte, long", []byte{0xc0}, 0},
		route{"a long header that ends in its id", longPacket(clientsID(7, 8))[:9], 0},
		route{"a long header that ends before its id's length", longPacket(nil)[:5], 0})
}

// groups are sockets that are read.
var groups = []struct{ ready, leaving []int }{
	{[]int{0}, nil},
	{[]int{3}, nil},
	{[]int{0, 1}, nil},
	{[]int{2, 3}, []int{0, 1}},
	{[]int{5, 1, 4}, []int{0, 2}},
	{nil, []int{1, 2}},
}

// The program selects the socket that issued an id, and otherwise one that is ready.
func TestSteering(t *testing.T) {
	all := groups
	many := make([]int, maxSockets/2)
	for i := range many {
		many[i] = 2 * i
	}
	all = append(all, struct{ ready, leaving []int }{many, []int{1, 3, 255}})
	for _, g := range all {
		program, err := steering(testMark, g.ready, g.leaving)
		if err != nil {
			t.Fatal(err)
		}
		decoded, ok := bpf.Disassemble(program)
		if !ok {
			t.Fatalf("%v, %v: the program is invalid", g.ready, g.leaving)
		}
		vm, err := bpf.NewVM(decoded)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routesOf(t, g.ready, g.leaving) {
			got, err := vm.Run(r.packet)
			if err != nil || got != r.want {
				t.Errorf("ready %v, leaving %v: %s (% x …): socket %d, %v; want %d",
					g.ready, g.leaving, r.name, r.packet[:min(len(r.packet), 16)], got, err, r.want)
			}
		}
		if most := 20 + 4*len(g.ready) + 2*len(g.leaving); len(program) > max(most, 20+4*len(g.leaving)) {
			t.Errorf("ready %v, leaving %v: %d instructions", g.ready, g.leaving, len(program))
		}
	}
}

// New connections are spread evenly.
func TestSteeringSpreads(t *testing.T) {
	program, err := steering(testMark, []int{4, 7, 9}, []int{1})
	if err != nil {
		t.Fatal(err)
	}
	decoded, _ := bpf.Disassemble(program)
	vm, err := bpf.NewVM(decoded)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]int{}
	for i := range uint32(3000) {
		socket, _ := vm.Run(longPacket(clientsID(i*2654435761, 8)))
		counts[socket]++
	}
	for _, socket := range []int{4, 7, 9} {
		if counts[socket] < 900 || len(counts) != 3 {
			t.Fatalf("new connections by socket: %v", counts)
		}
	}
}

// A group without readers, or with too many sockets, has no program.
func TestSteeringErrors(t *testing.T) {
	for _, g := range []struct{ ready, leaving []int }{{}, {[]int{-1}, nil}, {nil, []int{256}}} {
		if program, err := steering(testMark, g.ready, g.leaving); err == nil {
			t.Errorf("ready %v, leaving %v: %d instructions", g.ready, g.leaving, len(program))
		}
	}
}

// Ids differ, have the index and the check byte, and no others pass the check.
func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for index := range maxSockets {
		g := idGenerator{byte(index), testMark}
		id := issued(t, index)
		if len(id) != g.ConnectionIDLen() || int(id[0]) != index || id[0]^id[1]^id[2] != testMark || seen[string(id[2:])] {
			t.Fatalf("index %d: % x", index, id)
		}
		seen[string(id[2:])] = true
	}
}

// FuzzSteering: every packet goes to a socket that is read, or, if it is cut, to socket 0.
func FuzzSteering(f *testing.F) {
	for _, r := range routesOf(f, []int{2, 3}, []int{5}) {
		f.Add(r.packet)
	}
	program, err := steering(testMark, []int{2, 3}, []int{5})
	if err != nil {
		f.Fatal(err)
	}
	decoded, _ := bpf.Disassemble(program)
	vm, err := bpf.NewVM(decoded)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		got, err := vm.Run(packet)
		isWhole := len(packet) >= 10 && (packet[0] < 0x80 || packet[5] >= 4)
		if err != nil || got != 2 && got != 3 && got != 5 && (got != 0 || isWhole) {
			t.Fatalf("socket %d, %v", got, err)
		}
	})
}
