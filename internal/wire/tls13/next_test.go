package tls13

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// What a peer may and may not send. Each string is the content of a record with its type and
// padding.
//
// long: a table of records
func TestNext(t *testing.T) {
	const (
		data, alert, handshake = "\x17", "\x15", "\x16"
		update                 = "\x18\x00\x00\x01"
		ticket                 = "\x04\x00\x00\x03abc"
	)
	full := string(bytes.Repeat([]byte{'x'}, MaxData))
	for _, c := range []struct {
		name  string
		side  Side // of the receiver
		inner []string
		want  string
		err   error
	}{
		{"data", Server, []string{"one" + data, "two" + data}, "onetwo", nil},
		{"padding", Server, []string{"one" + data + "\x00\x00\x00"}, "one", nil},
		{"zeros as data", Server, []string{"\x00\x00" + data + "\x00"}, "\x00\x00", nil},
		{"no data", Server, []string{data, "one" + data}, "one", nil},
		{"no data, padded", Server, []string{data + "\x00\x00", "one" + data}, "one", nil},
		{"16 without data, again and again", Server, slices.Concat(slices.Repeat([]string{data}, 16), []string{"x" + data}, slices.Repeat([]string{data}, 16)), "x", nil},
		{"17 without data", Server, slices.Repeat([]string{data}, 17), "", ErrFruitless},
		{"the longest", Server, []string{full + data}, full, nil},
		{"a byte more", Server, []string{full + "x" + data}, "", ErrLength},
		{"a byte of padding more", Server, []string{full + data + "\x00"}, "", ErrLength},
		{"no type", Server, []string{"\x00\x00"}, "", ErrContent},
		{"nothing", Server, []string{""}, "", ErrContent},
		{"unknown type", Server, []string{"x\x18"}, "", ErrContent},
		{"change_cipher_spec", Server, []string{"\x01\x14"}, "", ErrContent},
		{"close_notify", Server, []string{"x" + data, "\x01\x00" + alert, "y" + data}, "x", ErrEnd},
		{"close_notify as fatal", Server, []string{"\x02\x00" + alert}, "", ErrEnd},
		{"user_canceled", Server, []string{"\x01\x5a" + alert, "\x01\x00" + alert}, "", ErrEnd},
		{"a fatal alert", Server, []string{"\x02\x28" + alert, "x" + data}, "", PeerAlert(40)},
		{"a fatal alert as a warning", Server, []string{"\x01\x28" + alert}, "", PeerAlert(40)},
		{"an unknown alert", Server, []string{"\x01\xff" + alert}, "", PeerAlert(255)},
		{"half an alert", Server, []string{"\x01" + alert}, "", ErrAlert},
		{"two alerts", Server, []string{"\x01\x5a\x01\x00" + alert}, "", ErrAlert},
		{"no alert", Server, []string{alert}, "", ErrContent},
		{"no message", Server, []string{handshake}, "", ErrContent},
		{"no message, padded", Server, []string{handshake + "\x00"}, "", ErrContent},
		{"update in pieces", Server, []string{"\x18" + handshake, "\x00\x00" + handshake, "\x01" + handshake, "\x02" + handshake}, "", ErrUpdate},
		{"update to 2", Server, []string{update + "\x02" + handshake}, "", ErrUpdate},
		{"update without a body", Server, []string{"\x18\x00\x00\x00" + handshake}, "", ErrUpdateSize},
		{"update with two bytes", Server, []string{"\x18\x00\x00\x02\x00\x00" + handshake}, "", ErrUpdateSize},
		{"large update", Server, []string{"\x18\x01\x00\x01" + handshake}, "", ErrUpdateSize},
		{"two updates in one record", Server, []string{update + "\x00" + update + "\x00" + handshake}, "", ErrInterrupted},
		{"a byte after an update", Server, []string{update + "\x00\x18" + handshake}, "", ErrInterrupted},
		{"data in an update", Server, []string{update + handshake, "x" + data}, "", ErrInterrupted},
		{"empty data in an update", Server, []string{update + handshake, data}, "", ErrInterrupted},
		{"an alert in an update", Server, []string{update + handshake, "\x01\x00" + alert}, "", ErrInterrupted},
		{"old keys after an update", Server, []string{update + "\x00" + handshake, "x" + data}, "", ErrMAC},
		{"ClientHello", Server, []string{"\x01\x00\x00\x00" + handshake}, "", ErrHandshake},
		{"Finished", Server, []string{"\x14\x00\x00\x00" + handshake}, "", ErrHandshake},
		{"Certificate", Server, []string{"\x0b\x00\x00\x00" + handshake}, "", ErrHandshake},
		{"a ticket for a server", Server, []string{ticket + handshake}, "", ErrHandshake},
		{"a ticket", Client, []string{ticket + handshake, "x" + data}, "x", nil},
		{"two tickets", Client, []string{ticket + ticket + handshake, "x" + data}, "x", nil},
		{"a ticket in pieces", Client, []string{ticket[:3] + handshake, ticket[3:4] + handshake, ticket[4:5] + handshake, ticket[5:] + handshake, "x" + data}, "x", nil},
		{"a ticket and an update", Client, []string{ticket + update + "\x00" + handshake, "x" + data}, "", ErrMAC},
		{"a large ticket", Client, []string{"\x04\x01\x00\x01" + handshake}, "", ErrTicketSize},
		{"CertificateRequest", Client, []string{"\x0d\x00\x00\x00" + handshake}, "", ErrHandshake},
	} {
		t.Run(c.name, func(t *testing.T) {
			receiver, sender := pair(t, AES128GCM)
			if c.side == Client {
				receiver, sender = sender, receiver
			}
			var in []byte
			for _, inner := range c.inner {
				in = protect(t, sender, in, []byte(inner))
			}
			got, err := receive(receiver, in)
			if string(got) != c.want || !sameError(err, c.err) {
				t.Fatalf("%.20q, %v; want %.20q, %v", got, err, c.want, c.err)
			}
			if err == nil {
				return
			}
			if _, n, again := receiver.Next(in); n != 0 || !sameError(again, c.err) {
				t.Errorf("then %d, %v", n, again)
			}
			if receiver.CanStop() {
				t.Error("it can stop")
			}
		})
	}
}

// sameError reports whether err is want, for errors that can be compared.
func sameError(err, want error) bool { return errors.Is(err, want) && (err == nil) == (want == nil) }

// What is not protected, and what is cut or changed.
func TestNextOfForeignBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(record []byte) []byte
		err    error
	}{
		{"a plain alert", func(r []byte) []byte { r[0] = TypeAlert; return r }, ErrType},
		{"change_cipher_spec", func([]byte) []byte { return []byte{20, 3, 3, 0, 1, 1} }, ErrType},
		{"HTTP", func([]byte) []byte { return []byte("G") }, ErrType},
		{"too long", func(r []byte) []byte { r[3], r[4] = 0x41, 0x01; return r }, ErrLength},
		{"too short", func(r []byte) []byte { r[3], r[4] = 0, tagSize; return r }, ErrMAC},
		{"too short for a tag", func(r []byte) []byte { r[3], r[4] = 0, tagSize-1; return r }, ErrMAC},
		{"another tag", func(r []byte) []byte { r[len(r)-1] ^= 1; return r }, ErrMAC},
		{"another byte", func(r []byte) []byte { r[HeaderSize] ^= 1; return r }, ErrMAC},
		// The additional data has the version, so it is that of the sender (RFC 8446 section 5.2).
		{"another version", func(r []byte) []byte { r[2] = 1; return r }, ErrMAC},
		{"twice", func(r []byte) []byte { return append(r, r...) }, ErrMAC},
	} {
		server, client := pair(t, ChaCha20)
		record, err := client.Append(nil, []byte("some data"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receive(server, c.change(record)); !sameError(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
}

// A record that is not complete takes nothing, and Need says what is missing.
func TestNeed(t *testing.T) {
	server, client := pair(t, AES256GCM)
	record, err := client.Append(nil, []byte("some data"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range record {
		if data, n, err := server.Next(record[:i]); len(data) > 0 || n != 0 || err != nil {
			t.Errorf("%d bytes: %q, %d, %v", i, data, n, err)
		}
		want := len(record)
		if i < HeaderSize {
			want = HeaderSize
		}
		if n, err := Need(record[:i]); n != want || err != nil {
			t.Errorf("%d bytes need %d, %v", i, n, err)
		}
	}
	if data, err := receive(server, record); string(data) != "some data" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
