package tls13

import (
	"bytes"
	"errors"
	"testing"
)

// Data is cut into records.
func TestAppend(t *testing.T) {
	for _, suite := range []Suite{AES128GCM, AES256GCM, ChaCha20} {
		server, client := pair(t, suite)
		data := bytes.Repeat([]byte("0123456789"), 4000)
		for _, c := range []struct{ size, records int }{{0, 3}, {MaxData + 1, 3}, {MaxData, 3}, {1000, 40}, {len(data), 3}} {
			out, err := server.Append([]byte("before"), data, c.size)
			if err != nil {
				t.Fatal(err)
			}
			if n := (len(out) - len("before") - len(data)) / Overhead; n != c.records {
				t.Errorf("%#x, size %d: %d records", suite, c.size, n)
			}
			if got, err := receive(client, out[len("before"):]); !bytes.Equal(got, data) || err != nil {
				t.Errorf("%#x, size %d: %d bytes, %v", suite, c.size, len(got), err)
			}
		}
		if out, err := server.Append(nil, nil, 0); len(out) > 0 || err != nil {
			t.Errorf("no data becomes % x, %v", out, err)
		}
	}
}

// Sending ends once; receiving goes on.
func TestClose(t *testing.T) {
	server, client := pair(t, AES128GCM)
	out := server.AppendClose(nil)
	if again := server.AppendAlert(server.AppendClose(nil), InternalError); len(again) > 0 {
		t.Errorf("then % x", again)
	}
	if _, err := server.Append(nil, []byte("x"), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("then %v", err)
	}
	if _, err := receive(client, out); !errors.Is(err, ErrEnd) {
		t.Errorf("the client gets %v", err)
	}
	more, err := client.Append(nil, []byte("more"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := receive(server, more); string(got) != "more" || err != nil {
		t.Errorf("the server gets %q, %v", got, err)
	}
	if server.CanStop() || client.CanStop() {
		t.Error("one can stop")
	}
	out = client.AppendAlert(nil, BadRecordMAC)
	if _, err := receive(server, out); !errors.Is(err, PeerAlert(BadRecordMAC)) {
		t.Errorf("an alert is %v", err)
	}
}

// Keys change when the peer asks for it, and after as many records as they may protect.
func TestUpdate(t *testing.T) {
	for _, suite := range []Suite{AES128GCM, AES256GCM, ChaCha20} {
		server, client := pair(t, suite)
		exchange := func(from, to *Layer, want string, records int) {
			t.Helper()
			out, err := from.Append(nil, []byte(want), 0)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for p := out; len(p) > 0; n++ {
				size, err := Need(p)
				if err != nil {
					t.Fatal(err)
				}
				p = p[size:]
			}
			if got, err := receive(to, out); string(got) != want || err != nil || n != records {
				t.Fatalf("%#x: %q in %d records, %v; want %q in %d", suite, got, n, err, want, records)
			}
		}
		exchange(client, server, "before", 1)
		// Three requests are answered once, with the next data.
		for range 3 {
			request := protect(t, client, nil, []byte{typeKeyUpdate, 0, 0, 1, updateRequested, TypeHandshake})
			client.out.update()
			if _, err := receive(server, request); err != nil {
				t.Fatal(err)
			}
		}
		exchange(client, server, "new keys", 1)
		exchange(server, client, "answer", 2)
		exchange(server, client, "and more", 1)
		server.out.sequence, client.in.sequence = updateAfter-1, updateAfter-1
		exchange(server, client, "the last", 1)
		exchange(server, client, "the first", 2)
		exchange(server, client, "and more", 1)
		exchange(client, server, "after", 1)
		if server.out.sequence != 2 {
			t.Errorf("the sequence number is %d", server.out.sequence)
		}
	}
}

func TestNoSequenceIsLeft(t *testing.T) {
	server, client := pair(t, AES128GCM)
	server.in.sequence, client.out.sequence = 1<<64-1, 1<<64-1
	if _, err := client.seal(nil, TypeApplication, []byte("x")); !errors.Is(err, ErrSequence) {
		t.Errorf("sealed: %v", err)
	}
	record := make([]byte, HeaderSize+1+tagSize)
	copy(record, []byte{TypeApplication, 3, 3, 0, 1 + tagSize})
	if _, _, err := server.Next(record); !errors.Is(err, ErrSequence) {
		t.Errorf("opened: %v", err)
	}
}

func TestAllocations(t *testing.T) {
	server, client := pair(t, AES128GCM)
	data, out := make([]byte, 100), make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() {
		out, _ = client.Append(out[:0], data, 0)
		if got, _, err := server.Next(out); len(got) != len(data) || err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Data is in no memory but the caller's, also if there is not enough room for the record.
func TestAppendLeavesNoData(t *testing.T) {
	data := bytes.Repeat([]byte("plaintext "), 100)
	for _, suite := range []Suite{AES128GCM, AES256GCM, ChaCha20} {
		server, _ := pair(t, suite)
		for room := range len(data) + 2*Overhead {
			dst := make([]byte, room)
			if _, err := server.Append(dst[:0], data, 0); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(dst, []byte("plaintext")) {
				t.Fatalf("%#x: room for %d bytes has data", suite, room)
			}
		}
	}
}
