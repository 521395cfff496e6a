package proxy

import (
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/sluicehttp/sluice"
)

// TestCopiedContext: a RequestCtx that was copied by assignment has its own request forwarded, although
// the other one keeps an exchange.
func TestCopiedContext(t *testing.T) {
	p := newProxy(t, Options{To: []string{upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) }))}})
	var ctx, other sluice.RequestCtx
	ctx.Init(new(sluice.Request), nil, nil)
	for _, c := range []*sluice.RequestCtx{&ctx, &other, &ctx} {
		if c == &other {
			reflect.ValueOf(c).Elem().Set(reflect.ValueOf(&ctx).Elem()) // go vet refuses an assignment
		}
		target := map[bool]string{true: "/other", false: "/first"}[c == &other]
		c.Request.SetRequestURI("http://b" + target)
		c.Response.Reset()
		p.Handle(c)
		if got := string(c.Response.Body()); got != target {
			t.Errorf("%d, %q, want %q", c.Response.StatusCode(), got, target)
		}
	}
}
