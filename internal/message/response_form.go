package message

// A ResponseForm says what of a response is sent as its content (RFC 9110
// section 6.4), and what the connection is for after it.
type ResponseForm struct {
	// Length of the content in bytes: -1 if it is unknown before the end of the
	// content, -2 if the head must not name one.
	Length int64
	// Date is the time of the Date field, as of clock.Nanos; 0: the server adds
	// none.
	Date int64
	// HasContent: content is sent, possibly of length 0. Otherwise the response
	// ends with its head.
	HasContent bool
	// HasTrailers: trailer fields may follow the content.
	HasTrailers bool
	// IsStream: the content is a stream, which may read the request's body.
	IsStream bool
	// OmitDefaultType leaves out the default Content-Type.
	OmitDefaultType bool
	// IsShown: the getters of the response return what its head says, by Show.
	IsShown bool
	// Next is what the connection is for after the response.
	Next Use
}

// A Use is what a connection is for after a response.
type Use uint8

const (
	UseRequest  Use = iota // another request
	UseHijack              // a hijack handler owns it
	UseProtocol            // another protocol has it
	UseNone                // it ends
)

// Framing returns what the head says of the content.
func (f *ResponseForm) Framing() Framing {
	length := f.Length
	if f.HasTrailers {
		length = -1
	}
	return Framing{Length: length, Date: f.Date, OmitDefaultType: f.OmitDefaultType, NamesServer: true}
}
