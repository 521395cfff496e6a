package streams

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// A declinedRequest notes the status with which it is declined.
type declinedRequest struct {
	server.Request
	status int
}

func (r *declinedRequest) Decline(status int) { r.status = status }

func TestLeaving(t *testing.T) {
	const may = -1
	for name, row := range map[string]struct {
		Leaving
		want int // the status of Decline
	}{
		"another method":             {Leaving{Outcome: server.OutcomeHijack, Status: 101}, 501},
		"accepted":                   {Leaving{Outcome: server.OutcomeHijack, IsConnect: true, IsAccepted: true, HasHead: true, IsEnding: true}, may},
		"flushed with a refusal":     {Leaving{Outcome: server.OutcomeHijack, IsConnect: true, HasHead: true, Status: 200}, 0},
		"silent":                     {Leaving{Outcome: server.OutcomeSilent, IsConnect: true, IsEnding: true, Status: 404}, may},
		"a server that ends":         {Leaving{Outcome: server.OutcomeTakeover, IsConnect: true, IsEnding: true, Status: 101}, 503},
		"switching":                  {Leaving{Outcome: server.OutcomeHijack, IsConnect: true, Status: 101}, may},
		"a status that opens":        {Leaving{Outcome: server.OutcomeTakeover, IsConnect: true, Status: 204}, may},
		"a status that does not":     {Leaving{Outcome: server.OutcomeHijack, IsConnect: true, Status: 403}, 0},
		"silent, but another method": {Leaving{Outcome: server.OutcomeSilent}, 501},
	} {
		r := &declinedRequest{status: may}
		if got := row.May(r); got != (row.want == may) || r.status != row.want {
			t.Errorf("%s: %v, declined with %d", name, got, r.status)
		}
	}
}

func TestOpensTunnel(t *testing.T) {
	for _, row := range []struct {
		next   message.Use
		status int
		want   bool
	}{
		{message.UseHijack, 101, true}, {message.UseProtocol, 200, true}, {message.UseHijack, 403, false}, {message.Use(0), 200, false},
	} {
		var h message.ResponseHeader
		h.SetStatus(row.status)
		if got := OpensTunnel(&message.ResponseForm{Next: row.next}, &h); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}
