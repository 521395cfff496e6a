package middleware

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/shared"
)

func newLimiter(t *testing.T, events int) *shared.RateLimiter {
	t.Helper()
	segment, err := shared.New(shared.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = segment.Close() })
	return shared.Must(segment.RateLimiter("limit", shared.RateLimit{Events: events, Per: time.Hour, Keys: 100}))
}

// fixedLimit admits what is not empty.
type fixedLimit struct{ q *shared.Quota }

func (f fixedLimit) Limit() (int, time.Duration) { return 5, 1500 * time.Millisecond }

func (f fixedLimit) Take([]byte) shared.Quota {
	if f.q != nil {
		return *f.q
	}
	return shared.Quota{IsAllowed: true, Left: 4, Reset: 30*time.Second + 1}
}

func TestRateLimitFields(t *testing.T) {
	for _, c := range []struct {
		q                  shared.Quota
		status             int
		left, policy, wait string
	}{
		{shared.Quota{IsAllowed: true, Left: 4, Reset: time.Millisecond}, 200, `"a b";r=4;t=1`, `"a b";q=5;w=2`, ""},
		{shared.Quota{IsAllowed: true, Reset: time.Minute}, 200, `"a b";r=0;t=60`, `"a b";q=5;w=2`, ""},
		{shared.Quota{RetryAfter: 1, Reset: time.Minute}, 429, `"a b";r=0;t=60`, `"a b";q=5;w=2`, "1"},
		{shared.Quota{RetryAfter: time.Minute, Reset: time.Hour}, 429, `"a b";r=0;t=3600`, `"a b";q=5;w=2`, "60"},
		{shared.Quota{RetryAfter: shared.Never}, 429, `"a b";r=0;t=0`, `"a b";q=5;w=2`, ""},
	} {
		ctx := request(t, "GET / HTTP/1.1")
		isCalled := false
		RateLimit(fixedLimit{&c.q}, RateLimitOptions{Name: "a b"})(func(*sluice.RequestCtx) { isCalled = true })(ctx)
		if ctx.Response.StatusCode() != c.status || field(ctx, "RateLimit") != c.left || field(ctx, "RateLimit-Policy") != c.policy || field(ctx, "Retry-After") != c.wait || isCalled != c.q.IsAllowed {
			t.Errorf("%+v: %s", c, &ctx.Response.Header)
		}
	}
	for _, name := range []string{`"`, `\`, "é", "a\n"} {
		if message := panicOf(func() { RateLimit(fixedLimit{}, RateLimitOptions{Name: name}) }); !strings.HasPrefix(message, "sluice: ") {
			t.Errorf("%q: %q", name, message)
		}
	}
}

// Who counts as one client. A client of IPv6 does not get more by its other addresses.
// A client is told of all limits that count its request, also of the one that refuses it.
func TestRateLimitsTogether(t *testing.T) {
	q := shared.Quota{IsAllowed: true, Left: 4, Reset: time.Second}
	refusal := shared.Quota{RetryAfter: time.Second, Reset: 2500 * time.Millisecond}
	const policies = `"wide";q=5;w=2, "narrow";q=5;w=2`
	for name, c := range map[string]struct {
		inner        shared.Quota
		handler      sluice.RequestHandler
		status       int
		left, policy string
	}{
		"allowed":  {q, answer("x"), 200, `"wide";r=4;t=1, "narrow";r=4;t=1`, policies},
		"replaced": {q, func(ctx *sluice.RequestCtx) { ctx.Error("x", 400) }, 400, `"narrow";r=4;t=1, "wide";r=4;t=1`, `"narrow";q=5;w=2, "wide";q=5;w=2`},
		"refused":  {refusal, answer("x"), 429, `"narrow";r=0;t=3, "wide";r=4;t=1`, `"narrow";q=5;w=2, "wide";q=5;w=2`},
		"own":      {q, func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("RateLimit", `"db";r=1;t=12`) }, 200, `"db";r=1;t=12, "narrow";r=4;t=1, "wide";r=4;t=1`, policies},
	} {
		ctx := request(t, "GET / HTTP/1.1")
		Use(c.handler, RateLimit(fixedLimit{&q}, RateLimitOptions{Name: "wide"}), RateLimit(fixedLimit{&c.inner}, RateLimitOptions{Name: "narrow"}))(ctx)
		if status := ctx.Response.StatusCode(); status != c.status || field(ctx, "RateLimit") != c.left || field(ctx, "RateLimit-Policy") != c.policy {
			t.Errorf("%s: %d, %s, %s", name, status, field(ctx, "RateLimit"), field(ctx, "RateLimit-Policy"))
		}
	}
}

func TestRateLimitKeys(t *testing.T) {
	handler := RateLimit(newLimiter(t, 1), RateLimitOptions{})(answer("in"))
	for _, c := range []struct {
		ip     string
		status int
	}{
		{"192.0.2.1", 200},
		{"192.0.2.1", 429},
		{"::ffff:192.0.2.1", 429},
		{"192.0.2.2", 200},
		{"2001:db8:0:1::1", 200},
		{"2001:db8:0:1:ffff::2", 429},
		{"2001:db8:0:2::1", 200},
	} {
		ctx := request(t, "GET / HTTP/1.1")
		ctx.SetRemoteAddr(&net.TCPAddr{IP: net.ParseIP(c.ip)})
		if handler(ctx); ctx.Response.StatusCode() != c.status {
			t.Errorf("%s: %d, want %d", c.ip, ctx.Response.StatusCode(), c.status)
		}
	}
	byToken := RateLimit(newLimiter(t, 1), RateLimitOptions{Key: func(ctx *sluice.RequestCtx) []byte { return ctx.Request.Header.Peek("X-Token") }})(answer("in"))
	for i, status := range []int{200, 429} {
		ctx := request(t, "GET / HTTP/1.1", "X-Token: a")
		if byToken(ctx); ctx.Response.StatusCode() != status {
			t.Errorf("request %d: %d", i, ctx.Response.StatusCode())
		}
		ctx = request(t, "GET / HTTP/1.1") // no key
		if byToken(ctx); ctx.Response.StatusCode() != 200 || field(ctx, "RateLimit") != "" {
			t.Errorf("%s", &ctx.Response.Header)
		}
	}
}

// A client that invents keys fills the table, which does not grow: then new keys are refused,
// and a key that is known keeps its limit.
func TestRateLimitFlood(t *testing.T) {
	var flood [4]byte
	key := flood[:]
	handler := RateLimit(newLimiter(t, 1), RateLimitOptions{Key: func(*sluice.RequestCtx) []byte { return key }})(answer("in"))
	status := func() int {
		ctx := request(t, "GET / HTTP/1.1")
		handler(ctx)
		return ctx.Response.StatusCode()
	}
	known := []byte("known")
	key = known
	if status() != 200 {
		t.Error("the first request is refused")
	}
	key = flood[:]
	admitted := 0
	for i := range 20_000 {
		binary.BigEndian.PutUint32(flood[:], uint32(i))
		if status() == 200 {
			admitted++
		}
	}
	if admitted < 100 || admitted > 1000 {
		t.Errorf("%d keys are admitted, 100 were expected", admitted)
	}
	if key = known; status() != 429 {
		t.Error("the flood has reset a limit")
	}
}
