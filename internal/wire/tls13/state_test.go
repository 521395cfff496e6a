package tls13

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"
)

// A connection stops, goes to another process, and goes on there, in the middle of keys.
func TestMove(t *testing.T) {
	for _, suite := range []Suite{AES128GCM, AES256GCM, ChaCha20} {
		server, client := pair(t, suite)
		speak := func(from, to *Layer) {
			t.Helper()
			out, err := from.Append(nil, []byte("data"), 0)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := receive(to, out); string(got) != "data" || err != nil {
				t.Fatalf("%#x: %q, %v", suite, got, err)
			}
		}
		for range 3 {
			speak(client, server)
			speak(server, client)
		}
		request := protect(t, client, nil, []byte{typeKeyUpdate, 0, 0, 1, updateRequested, TypeHandshake})
		client.out.update()
		if _, err := receive(server, request); err != nil {
			t.Fatal(err)
		}
		if !server.CanStop() {
			t.Fatal("it cannot stop")
		}
		var state State
		server.Stop(&state)
		if server.in.secret != ([maxSecret]byte{}) || server.out.secret != ([maxSecret]byte{}) || server.in.aead != nil || server.CanStop() {
			t.Error("the layer is not erased")
		}
		if _, err := server.Append(nil, []byte("x"), 0); err == nil {
			t.Error("an erased layer sends")
		}
		p := state.Append(nil)
		if len(p) != StateSize {
			t.Errorf("a state has %d bytes", len(p))
		}
		moved, err := ParseState(p)
		if err != nil || moved != state || !moved.IsUpdateDue {
			t.Fatalf("%+v, %v", moved, err)
		}
		if state.Erase(); state != (State{}) {
			t.Error("the state is not erased")
		}
		if err := server.Start(Server, &moved); err != nil {
			t.Fatal(err)
		}
		speak(server, client)
		speak(client, server)
	}
}

// A layer without ciphers makes each when it needs it, with the keys and numbers of before.
func TestRest(t *testing.T) {
	for _, suite := range []Suite{AES128GCM, AES256GCM, ChaCha20} {
		server, client := pair(t, suite)
		for i := range 4 {
			if i == 2 {
				server.isUpdateDue.Store(true)
			}
			for _, l := range []*Layer{server, client} {
				if l.Rest(); l.in.aead != nil || l.out.aead != nil {
					t.Error("a cipher is left")
				}
			}
			record, err := server.Append(nil, []byte("data"), 0)
			if err != nil {
				t.Fatal(err)
			}
			if server.in.aead != nil || server.out.aead == nil {
				t.Error("it has another cipher than that of its side")
			}
			if got, err := receive(client, record); string(got) != "data" || err != nil {
				t.Fatalf("%#x, message %d: %q, %v", suite, i, got, err)
			}
		}
	}
	var l Layer
	if _, err := l.Append(nil, []byte("data"), 0); !errors.Is(err, ErrState) {
		t.Errorf("a layer that was not started sends: %v", err)
	}
}

// A layer goes on with the number of a record that it finds, and only then.
func TestGoOnAs(t *testing.T) {
	server, client := pair(t, AES128GCM)
	var records [][]byte
	for range 3 {
		record, err := server.Append(nil, []byte("data"), 0)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	again := func(secret [maxSecret]byte) *Layer {
		l := &Layer{}
		if err := l.Start(Server, &State{Suite: AES128GCM, Out: Direction{Secret: secret, Sequence: 7}}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for i, c := range []struct {
		record []byte
		secret [maxSecret]byte
		end    uint64
		want   uint64 // the next number
	}{
		{records[2], server.out.secret, 2, 7},
		{records[2], server.out.secret, 3, 2},
		{records[0], server.out.secret, 4, 0},
		{records[1], server.out.secret, 4, 1},
		{records[1][:9], server.out.secret, 4, 7},
		{append(records[1], 0), server.out.secret, 4, 7},
		{records[1], client.out.secret, 4, 7},
	} {
		for guess := range uint64(2) {
			kept, l := bytes.Clone(c.record), again(c.secret)
			if ok := l.GoOnAs(c.record, guess, c.end); ok != (c.want < 7) || l.out.sequence != c.want {
				t.Errorf("%d, guess %d: %v, goes on with %d, want %d", i, guess, ok, l.out.sequence, c.want)
			}
			if !bytes.Equal(c.record, kept) {
				t.Errorf("%d: the record has changed", i)
			}
		}
	}
	l := again(server.out.secret)
	if !l.GoOnAs(records[2], 0, 4) {
		t.Fatal("it does not find the record")
	}
	next, err := l.Append(nil, []byte("more"), 0) // in place of the last one
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range append(records[:2], next) {
		if _, err := receive(client, record); err != nil {
			t.Fatal(err)
		}
	}
}

// What is packed comes back, and one place has it at a time.
func TestPack(t *testing.T) {
	for _, c := range []struct {
		suite   Suite
		in, out uint64 // numbers
		isSmall bool
	}{
		{AES128GCM, 3, 4, true}, {ChaCha20, 1<<32 - 1, 1<<29 - 1, true}, {AES256GCM, 3, 4, false}, {ChaCha20, 1 << 32, 0, false}, {AES128GCM, 0, 1 << 29, false},
		{AES128GCM, 0, updateAfter, true},
	} {
		s, err := NewState(c.suite, secretOf(c.suite, 1), secretOf(c.suite, 2), c.in, c.out)
		if err != nil {
			t.Fatal(err)
		}
		s.IsUpdateDue = c.in != 3
		want := s
		var p Packed
		if p.Unpack(&s) || s != want {
			t.Errorf("%+v: nothing was unpacked to %+v", c, s)
		}
		if ok := s.Pack(&p); ok != c.isSmall {
			t.Errorf("%+v: packed %v", c, ok)
		} else if !ok {
			if s != want || p != (Packed{}) {
				t.Errorf("%+v: it is changed", c)
			}
			continue
		}
		if s != (State{}) {
			t.Errorf("%+v: a state is left", c)
		}
		if !p.Unpack(&s) || s != want || p != (Packed{}) {
			t.Errorf("%+v: %+v became %+v; %+v is left", c, want, s, p)
		}
	}
	if size := unsafe.Sizeof(Packed{}); size > 72 {
		t.Errorf("%d bytes", size)
	}
}

func TestParseState(t *testing.T) {
	s, err := NewState(AES128GCM, secretOf(AES128GCM, 1), secretOf(AES128GCM, 2), 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	good := s.Append(nil)
	for name, bad := range map[string][]byte{
		"nothing":         nil,
		"cut":             good[:len(good)-1],
		"longer":          append(bytes.Clone(good), 0),
		"a flag":          append([]byte{2}, good[1:]...),
		"a suite":         append([]byte{0, 0x13, 0x04}, good[3:]...),
		"a longer secret": append(append([]byte{0, 0x13, 0x01}, bytes.Repeat([]byte{1}, maxSecret)...), good[3+maxSecret:]...),
	} {
		if got, err := ParseState(bad); !errors.Is(err, ErrState) || got != (State{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, c := range []struct {
		suite   Suite
		in, out int
	}{{0x1304, 32, 32}, {AES256GCM, 32, 48}, {AES256GCM, 48, 32}, {AES128GCM, 0, 32}} {
		if _, err := NewState(c.suite, make([]byte, c.in), make([]byte, c.out), 0, 0); !errors.Is(err, ErrState) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	var l Layer
	if err := l.Start(Server, &State{}); !errors.Is(err, ErrState) {
		t.Errorf("a zero State: %v", err)
	}
}
