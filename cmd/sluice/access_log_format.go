package main

import (
	"net"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
)

// lineFormat makes lines in the Combined Log Format:
//
//	HOST - - [02/Jan/2006:15:04:05 -0700] "GET /path HTTP/1.1" STATUS BYTES "REFERER" "USER-AGENT"
//
// BYTES are those of the body as it goes out; "-" stands for none, and for a
// number that is not known before the body has been sent.
type lineFormat struct {
	second int64 // that stamp is of
	stamp  []byte
}

// append appends the line of a request to dst.
func (f *lineFormat) append(dst []byte, ctx *sluice.RequestCtx, e *accesslog.Entry) []byte {
	dst = appendHost(dst, ctx.RemoteAddr())
	dst = append(dst, " - - ["...)
	dst = append(dst, f.stampOf(ctx.Time())...)
	dst = append(dst, `] "`...)
	if e.IsMalformed { // there is no request line
		dst = append(dst, '-')
	} else {
		dst = appendEscaped(dst, ctx.Method())
		dst = append(dst, ' ')
		dst = appendEscaped(dst, ctx.RequestURI())
		dst = append(dst, ' ')
		dst = appendEscaped(dst, ctx.Request.Header.Protocol())
	}
	dst = append(dst, `" `...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = append(dst, ' ')
	if e.Bytes > 0 {
		dst = strconv.AppendInt(dst, int64(e.Bytes), 10)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, ` "`...)
	dst = appendField(dst, ctx.Referer())
	dst = append(dst, `" "`...)
	dst = appendField(dst, ctx.UserAgent())
	return append(dst, '"', '\n')
}

// stampOf returns the text of a time. Requests come many to the second.
func (f *lineFormat) stampOf(t time.Time) []byte {
	if second := t.Unix(); second != f.second || f.stamp == nil {
		f.second = second
		f.stamp = t.AppendFormat(f.stamp[:0], "02/Jan/2006:15:04:05 -0700")
	}
	return f.stamp
}

// appendHost appends the address of a client without its port.
func appendHost(dst []byte, addr net.Addr) []byte {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		if ip := tcp.AddrPort().Addr(); ip.IsValid() {
			return ip.Unmap().AppendTo(dst)
		}
	}
	return append(dst, '-')
}

// appendField appends the value of a field, "-" if there is none.
func appendField(dst, value []byte) []byte {
	if len(value) == 0 {
		return append(dst, '-')
	}
	return appendEscaped(dst, value)
}

// appendEscaped appends what a client sent so that it stays within its quotes
// and its line, whatever reads the log: quotes and backslashes are escaped by a
// backslash, and everything but printable ASCII as \xHH.
func appendEscaped(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '\\', 'x', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
