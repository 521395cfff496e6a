package sluice

// Request methods (RFC 9110 section 9.3, RFC 5789 for PATCH,
// draft-ietf-httpbis-safe-method-w-body for QUERY).
const (
	MethodGet     = "GET"
	MethodHead    = "HEAD"
	MethodPost    = "POST"
	MethodPut     = "PUT"
	MethodPatch   = "PATCH"
	MethodDelete  = "DELETE"
	MethodConnect = "CONNECT"
	MethodOptions = "OPTIONS"
	MethodTrace   = "TRACE"
	MethodQuery   = "QUERY"
)
