package proxy

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"time"

	"github.com/sluicehttp/sluice"
)

// Options are the options of New. All fields but To may be zero.
type Options struct {
	// To are the upstreams: URLs without a path. Their schemes are
	//
	//	http, https  HTTP/1.1, with TLS
	//	h2c, h2      HTTP/2 without asking (prior knowledge), HTTP/2 with TLS
	//	unix         HTTP/1.1 over a Unix socket, unix:/run/app.sock
	To []string

	// Balance says which upstream gets a request; the zero value is LeastLoaded.
	Balance Balance
	// Key returns what Hash assigns to an upstream. It must not retain ctx; the result is
	// used until the next call. nil: the client's IP address.
	Key func(ctx *sluice.RequestCtx) []byte
	// Cookie is the name of the cookie of Sticky; "": "sluice_upstream".
	Cookie string
	// StickyKey is the secret from which the values of that cookie are made, so that they tell
	// nothing of the upstreams. Proxies with the same one, in several processes or machines,
	// understand each other's cookies. "": a random one.
	StickyKey string

	// HealthPath makes the proxy ask each upstream for this path, every HealthInterval. One
	// that fails twice in a row, or does not answer with a status from 200 to 399 within
	// HealthTimeout, gets no requests until it answers well, unless all are down. "": none;
	// upstreams whose requests fail are avoided nevertheless.
	HealthPath string
	// HealthInterval is the time between two tests; 0: 5 s.
	HealthInterval time.Duration
	// HealthTimeout bounds a test; 0: 2 s.
	HealthTimeout time.Duration

	// Attempts is to how many upstreams a request is sent at most, if those before have
	// failed; 0: 3, negative: 1. A request of which an upstream may have seen something is
	// sent to another one only if it may be repeated: its method is idempotent (RFC 9110
	// section 9.2.2) or it has an Idempotency-Key, and its body was short enough for
	// BufferBody. No request is repeated after a time-out or an answer.
	Attempts int
	// HedgeAfter is how long a request waits for its response before it is sent to a second
	// upstream, too. The first good response, one with a status below 500, is the client's, and
	// the other request is cancelled. This is done only with requests whose method is safe (RFC
	// 9110 section 9.2.1) and whose body, if any, was short enough for BufferBody, for at most one
	// in ten of these, and if another upstream is up.
	// HedgeAfter is for response times that a few slow answers spoil: set it to what 95 % of the
	// requests take. It excludes Sticky. 0: never.
	HedgeAfter time.Duration

	// DialTimeout bounds connecting to an upstream, with TLS; 0: 3 s.
	DialTimeout time.Duration
	// Timeout bounds each wait: for the head of the response, for the next part of its body,
	// for the next part of the request's body, and for the upstream to take more of that.
	// 0: 1 minute. In a tunnel it bounds the wait for a side that takes no more, and for the rest
	// from one side when the other one has ended its output. Server.WriteTimeout bounds the
	// wait for a client that takes no more of a response.
	Timeout time.Duration
	// TunnelTimeout ends a tunnel through which nothing has gone for so long, either way; 0: 1
	// hour, negative: never. Tunnels that need goroutines have no such limits: with TLS or HTTP/2
	// to the upstream, HTTP/2 from the client, or without the event engine.
	TunnelTimeout time.Duration
	// MaxConns bounds the connections to each upstream, and with HTTP/1.1 so the requests
	// that it processes at the same time; 0: 1,024. Tunnels are not counted, nor are server-sent
	// events after their head, with the event engine.
	MaxConns int
	// MaxWait is how long a request waits if there are MaxConns; then it is answered with
	// 503. 0: 1 s.
	MaxWait time.Duration
	// MaxBody bounds the bodies of requests, in bytes; longer ones are answered with 413. It
	// has no effect if the server keeps bodies in memory: see Server.MaxRequestBodySize.
	// 0: no limit.
	MaxBody int64
	// BufferBody is the length up to which the body of a request is received before the
	// request is sent; then it may be repeated, and a slow client does not occupy an
	// upstream. It is about the length that Content-Length tells. 0: 16 KiB, negative: none.
	BufferBody int
	// MaxHead bounds the head of a response, in bytes; a longer one is answered with 502.
	// Each request in progress has a buffer of that size. 0: 64 KiB, with smaller buffers.
	MaxHead int

	// TLSConfig is for connections with TLS; nil: the defaults.
	TLSConfig *tls.Config

	// Forwarded says what upstreams learn of the client; the zero value is ForwardedReplace.
	Forwarded Forwarded
	// RewriteHost sends the upstream's own host as Host. Otherwise it gets what the client
	// has asked for.
	RewriteHost bool
	// Via is the name with which the proxy adds itself to Via, of requests and responses
	// (RFC 9110 section 7.6.3); "": it does not. A request whose Via has the name is
	// answered with 508, because it has been here before.
	Via string

	// Request is called with each request before it is sent, and may change it: its fields,
	// target and Host. ctx has the client's request, which must not be changed. If it
	// returns an error, nothing is sent: the client gets what Request has written to ctx
	// (see ErrAnswered), or 502.
	Request func(ctx *sluice.RequestCtx, req *sluice.Request) error
	// Response is called when ctx.Response has the status and the fields of the upstream's
	// response, before they are sent, and may change them. After an error the client gets
	// 502 instead, or with ErrAnswered what Response has written to ctx.
	Response func(ctx *sluice.RequestCtx) error

	// Logger receives what the proxy answers itself with a status of 500 or more, and changes
	// of health; nil: the server's.
	Logger sluice.Logger
}

// A Balance says which upstream gets a request. Upstreams that have failed are avoided with
// each of them; see sluice.LBClient.
type Balance uint8

const (
	// LeastLoaded takes the upstream with the fewest requests in progress.
	LeastLoaded Balance = iota
	// Hash takes the same upstream for the same Options.Key. If an upstream fails, or their
	// number changes, only the keys of that upstream move (rendezvous hashing). All
	// processes with the same upstreams choose alike.
	Hash
	// Sticky takes the upstream that a cookie names, which it has set in the first response.
	// It takes the least loaded one for clients without the cookie.
	Sticky
)

// Forwarded says what happens to Forwarded (RFC 7239), X-Forwarded-For, X-Forwarded-Host
// and X-Forwarded-Proto.
type Forwarded uint8

const (
	// ForwardedReplace removes what the client has sent, all of X-Forwarded-… and X-Real-IP
	// too, and sets the four.
	ForwardedReplace Forwarded = iota
	// ForwardedAppend adds to what has come, for a proxy behind another that is trusted.
	ForwardedAppend
	// ForwardedDrop removes what the client has sent, and sets nothing.
	ForwardedDrop
)

// ErrAnswered is the error with which Options.Request and Options.Response say that ctx has the
// response.
var ErrAnswered = errors.New("sluice: the hook has answered")

// StatusClientClosed is the status, for logs, of a request whose client has disconnected before
// there was a response.
const StatusClientClosed = 499

func (o *Options) setDefaults() {
	setDefault(&o.HealthInterval, 5*time.Second)
	setDefault(&o.HealthTimeout, 2*time.Second)
	setDefault(&o.DialTimeout, sluice.DefaultDialTimeout)
	setDefault(&o.Timeout, time.Minute)
	setDefault(&o.TunnelTimeout, time.Hour)
	setDefault(&o.MaxWait, time.Second)
	setDefault(&o.Attempts, 3)
	setDefault(&o.MaxConns, 1024)
	setDefault(&o.BufferBody, 16<<10)
	setDefault(&o.Cookie, "sluice_upstream")
	setDefault(&o.StickyKey, rand.Text())
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}
