// Package ws implements the wire format of WebSocket (RFC 6455) for servers and
// clients: frames, masks, messages, close codes, the handshake and the parameters of
// permessage-deflate (RFC 7692). It parses them from bytes and appends them to bytes.
// It does no I/O and uses no clock. Incomplete input is a normal result.
package ws
