package h3

import (
	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// tunnelRules are those of RFC 9220.
func tunnelRules() []rule {
	connect := func(fields ...string) []byte { return headers(append([]string{":method", "CONNECT"}, fields...)...) }
	whole := []string{":protocol", "websocket", ":scheme", "https", ":authority", "localhost", ":path", "/ws"}
	without := func(name string) []byte {
		var fields []string
		for i := 0; i < len(whole); i += 2 {
			if whole[i] != name {
				fields = append(fields, whole[i], whole[i+1])
			}
		}
		return connect(append(fields, "sec-websocket-version", "13")...)
	}
	return []rule{
		{"9220 3", ":protocol without CONNECT", false, malformed, on(headers(":method", "GET", ":protocol", "websocket", ":scheme", "https", ":authority", "localhost", ":path", "/ws"))},
		{"9220 3", "no :path", false, malformed, on(without(":path"))},
		{"9220 3", "no :scheme", false, malformed, on(without(":scheme"))},
		{"9220 3", "no :authority", false, malformed, on(without(":authority"))},
		{"9220 3", "another value of SETTINGS_ENABLE_CONNECT_PROTOCOL", true, ended(h3.SettingsError), onUni(controlStream, frame(h3.FrameSettings, varint(8), varint(2)))},
		{"9220 3", "an unknown protocol", false, answered(501, 405), on(connect(":protocol", "none", ":scheme", "https", ":authority", "localhost", ":path", "/ws"))},
		{"9114 4.4", "HEADERS in a tunnel", false, ended(h3.FrameUnexpected), func(w *wire) *quic.Stream {
			s := w.open(without(""))
			awaitHead(w.t, s)
			_, _ = s.Write(headers("x-a", "1"))
			return s
		}},
		{"9114 4.4", "a WebSocket's end", false, ok, func(w *wire) *quic.Stream {
			s := w.open(without(""))
			awaitHead(w.t, s)
			_ = s.Close()
			return s
		}},
		{"9220 3", "a WebSocket", false, ok, func(w *wire) *quic.Stream {
			s := w.open(without(""))
			awaitHead(w.t, s)
			_, _ = s.Write(data("\x81\x82\x00\x00\x00\x00hi\x88\x82\x00\x00\x00\x00\x03\xe8")) // "hi", and the end
			_ = s.Close()
			return s
		}},
	}
}
