package proxy

import (
	"bufio"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// An answerer is a RoundTripper that answers itself. The first answer has a field more.
type answerer struct{ answers atomic.Int32 }

func (a *answerer) RoundTrip(_ *sluice.HostClient, _ *sluice.Request, resp *sluice.Response) (retry bool, err error) {
	if a.answers.Add(1) == 1 {
		resp.SetStatusCode(404)
		resp.Header.Set("X-First", "1")
	}
	resp.SetBodyString("ok")
	return false, nil
}

// TestAnswersOfTransport: a RoundTripper, which may be that of sluice.DefaultTransport, gets an empty
// response, not that of the request before.
func TestAnswersOfTransport(t *testing.T) {
	for _, o := range []Options{
		{To: []string{"http://127.0.0.1:1"}},
		{To: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, HedgeAfter: time.Hour},
	} {
		p, transport := newProxy(t, o), new(answerer)
		for _, m := range p.group.Members() {
			m.Client.client.Transport = transport
		}
		conn := dialFront(t, front(t, p, sluice.EngineAuto))
		r := bufio.NewReader(conn)
		for i := range 10 {
			send(t, conn, get(""))
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if isFirst := i == 0; (resp.StatusCode == 404) != isFirst || (resp.Header.Get("X-First") != "") != isFirst || bodyOf(t, resp) != "ok" {
				t.Errorf("answer %d of %v: %s, %v", i, o.To, resp.Status, resp.Header)
			}
		}
	}
}
