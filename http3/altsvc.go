package http3

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// An alternative is where a server says that HTTP/3 is spoken for it: on its own host.
type alternative struct {
	port string
	age  time.Duration // how long that holds
}

// altSvcKind is what the lines of Alt-Svc of one response mean.
type altSvcKind uint8

const (
	altSvcInvalid altSvcKind = iota // nothing: what was known stays
	altSvcNone                      // what was known is over
	altSvcHTTP3
)

// defaultAge is the age of an alternative that has no parameter ma (RFC 7838 section 3.1).
const defaultAge = 24 * time.Hour

// maxAge is how long an alternative is remembered at most.
const maxAge = 365 * 24 * time.Hour

// readAltSvc reads the lines of Alt-Svc (RFC 7838 section 3) of a response of host. The result is
// the first alternative with the protocol h3 on that host.
func readAltSvc(lines [][]byte, host string) (alt alternative, kind altSvcKind) {
	for _, line := range lines {
		rest := ascii.TrimOWS(line)
		if string(rest) == "clear" {
			return alternative{}, altSvcNone
		}
		for len(rest) > 0 {
			if rest[0] == ',' { // an empty member of the list (RFC 9110 section 5.6.1)
				rest = ascii.TrimOWS(rest[1:])
				continue
			}
			r := altReader{rest: rest}
			a, isHTTP3, isValid := r.alternative(host)
			if !isValid {
				return alternative{}, altSvcInvalid
			}
			rest = ascii.TrimOWS(r.rest)
			switch {
			case kind == altSvcHTTP3:
			case isHTTP3:
				alt, kind = a, altSvcHTTP3
			default:
				kind = altSvcNone
			}
		}
	}
	if kind == altSvcHTTP3 && alt.age == 0 {
		return alternative{}, altSvcNone
	}
	return alt, kind
}

// An altReader reads one member of an Alt-Svc list after the other.
type altReader struct {
	rest []byte
	text []byte // of a quoted string
}

// alternative reads a member up to the next one. isHTTP3: it is h3 on host.
func (r *altReader) alternative(host string) (a alternative, isHTTP3, isValid bool) {
	protocol := r.token()
	if len(protocol) == 0 || !r.skip('=') {
		return a, false, false
	}
	isHTTP3 = string(protocol) == protocolHTTP3
	authority, ok := r.quoted()
	if !ok {
		return a, false, false
	}
	name, port, ok := splitAuthority(string(authority))
	if !ok {
		return a, false, false
	}
	isHTTP3 = isHTTP3 && (name == "" || strings.EqualFold(name, host))
	a = alternative{port: port, age: defaultAge}
	for {
		r.rest = ascii.TrimOWS(r.rest)
		if !r.skip(';') {
			break
		}
		r.rest = ascii.TrimOWS(r.rest)
		parameter := r.token()
		if len(parameter) == 0 || !r.skip('=') {
			return a, false, false
		}
		value := r.token()
		if len(value) == 0 {
			if value, ok = r.quoted(); !ok {
				return a, false, false
			}
		}
		if ascii.EqualFold(parameter, "ma") {
			if a.age, ok = readAge(value); !ok {
				return a, false, false
			}
		}
	}
	return a, isHTTP3, len(r.rest) == 0 || r.skip(',')
}

// readAge reads delta-seconds (RFC 9111 section 1.2.2).
func readAge(value []byte) (age time.Duration, ok bool) {
	seconds := uint64(0)
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		if seconds < math.MaxUint32 {
			seconds = seconds*10 + uint64(c-'0')
		}
	}
	return time.Duration(min(seconds, uint64(maxAge/time.Second))) * time.Second, len(value) > 0
}

// splitAuthority splits an alt-authority (RFC 7838 section 3): the port is required.
func splitAuthority(s string) (host, port string, ok bool) {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return "", "", false
	}
	host, port = s[:colon], s[colon+1:]
	n, err := strconv.ParseUint(port, 10, 16)
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), strconv.FormatUint(n, 10), err == nil && n > 0
}

// skip skips c, and reports whether it was there.
func (r *altReader) skip(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// token reads a token (RFC 9110 section 5.6.2), which is empty if there is none.
func (r *altReader) token() (token []byte) {
	n := ascii.Prefix(r.rest, ascii.Token)
	token, r.rest = r.rest[:n], r.rest[n:]
	return token
}

// quoted reads a quoted string (RFC 9110 section 5.6.4). Its text is valid until the next one.
func (r *altReader) quoted() (text []byte, ok bool) {
	if !r.skip('"') {
		return nil, false
	}
	r.text = r.text[:0]
	for i := 0; i < len(r.rest); i++ {
		c := r.rest[i]
		switch {
		case c == '"':
			r.rest = r.rest[i+1:]
			return r.text, true
		case c == '\\' && i+1 < len(r.rest):
			i++
			c = r.rest[i]
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, false
		}
		r.text = append(r.text, c)
	}
	return nil, false
}

const (
	// maxOrigins is how many origins a Transport remembers.
	maxOrigins = 10_000
	// firstBroken and longestBroken are how long an origin is not asked over HTTP/3 after QUIC
	// has failed: once, and after many times.
	firstBroken   = 5 * time.Minute
	longestBroken = 48 * time.Hour
)

// origins is what a Transport knows of servers, by "host:port". The zero value is empty.
type origins struct {
	mu    sync.Mutex
	known map[string]origin
}

// An origin is what is known of a server.
type origin struct {
	port        string    // of HTTP/3; "": none
	until       time.Time // port holds
	brokenUntil time.Time
	failures    uint8 // of QUIC, one after the other
}

// port returns the port at which an origin is to be asked over HTTP/3 now, "" if it is not.
// assumed is that of an origin that has named none.
func (o *origins) port(addr, assumed string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.known[addr]
	if !ok {
		return assumed
	}
	switch now := time.Now(); {
	case now.Before(known.brokenUntil):
		return ""
	case known.port == "" || !now.Before(known.until):
		return assumed
	}
	return known.port
}

// learn applies the lines of Alt-Svc of a response with this Age, from a cache if it is not empty.
func (o *origins) learn(addr, host string, lines [][]byte, age []byte) {
	alt, kind := readAltSvc(lines, host)
	since, _ := readAge(age) // one that is not valid counts as none
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[addr]
	switch kind {
	case altSvcInvalid:
		return
	case altSvcNone:
		if known.port != "" {
			known.port = ""
			o.putLocked(addr, known)
		}
		return
	}
	known.port, known.until = alt.port, time.Now().Add(alt.age-since)
	o.putLocked(addr, known)
}

// failed says that QUIC has failed for an origin.
func (o *origins) failed(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[addr]
	pause := longestBroken
	if shift := known.failures; shift < 16 {
		pause = min(firstBroken<<shift, longestBroken)
		known.failures++
	}
	known.brokenUntil = time.Now().Add(pause)
	o.putLocked(addr, known)
}

// worked says that a connection of QUIC has served an origin until its end.
func (o *origins) worked(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.known[addr]; ok && known.failures > 0 {
		known.failures = 0
		o.putLocked(addr, known)
	}
}

// putLocked stores what is known of an origin: nothing if it has neither a port nor a failure, and
// is not broken.
func (o *origins) putLocked(addr string, known origin) {
	if known.port == "" && known.failures == 0 && !time.Now().Before(known.brokenUntil) {
		delete(o.known, addr)
		return
	}
	if o.known == nil {
		o.known = make(map[string]origin)
	}
	if _, ok := o.known[addr]; !ok && len(o.known) >= maxOrigins {
		o.dropOneLocked()
	}
	o.known[addr] = known
}

// dropOneLocked makes room for an origin: one that has expired, if it meets any among a few, or
// another.
func (o *origins) dropOneLocked() {
	const looks = 16
	now, seen, victim := time.Now(), 0, ""
	for addr, known := range o.known { // in a random order
		victim = addr
		if seen++; seen == looks || known.port == "" || !now.Before(known.until) {
			break
		}
	}
	delete(o.known, victim)
}
