package streams

import (
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// A Leaving is a request whose handler wants to leave HTTP: OutcomeHijack, OutcomeSilent or
// OutcomeTakeover.
type Leaving struct {
	Outcome    server.Outcome
	IsConnect  bool // the request is an extended CONNECT
	IsAccepted bool // the final head has opened the tunnel
	HasHead    bool // a final head was sent
	IsEnding   bool // the server ends, and closes what is hijacked
	Status     int  // of the response
}

// May reports whether the hijack handler gets a tunnel, or the protocol the stream. If not, the
// response is that of a request that was not hijacked: r is declined.
func (l Leaving) May(r server.Request) bool {
	refuse := 0
	switch {
	case !l.IsConnect:
		refuse = statusNotImplemented
	case l.IsAccepted:
		return true
	case l.HasHead: // with another status
	case l.Outcome == server.OutcomeSilent:
		return true
	case l.IsEnding:
		refuse = statusUnavailable
	case server.IsTunnelStatus(l.Status):
		return true
	}
	r.Decline(refuse)
	return false
}

const (
	statusNotImplemented = 501
	statusUnavailable    = 503
)

// OpensTunnel reports whether a response is that to a hijacked request.
func OpensTunnel(f *message.ResponseForm, h *message.ResponseHeader) bool {
	return (f.Next == message.UseHijack || f.Next == message.UseProtocol) && server.IsTunnelStatus(h.Status())
}
