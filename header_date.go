package sluice

import "github.com/sluicehttp/sluice/internal/ascii"

// The setters of a response's fields leave Date out: the server writes the
// present one. They are those of header otherwise, and say so.

// isDate tells whether key is Date, in whatever spelling.
func isDate[T string | []byte](key T) bool { return ascii.EqualFold(key, HeaderDate) }

// Set is RequestHeader.Set, but ignores Date.
func (h *ResponseHeader) Set(key, value string) {
	if !isDate(key) {
		h.header.Set(key, value)
	}
}

// SetBytesK is RequestHeader.SetBytesK, but ignores Date.
func (h *ResponseHeader) SetBytesK(key []byte, value string) {
	if !isDate(key) {
		h.header.SetBytesK(key, value)
	}
}

// SetBytesV is RequestHeader.SetBytesV, but ignores Date.
func (h *ResponseHeader) SetBytesV(key string, value []byte) {
	if !isDate(key) {
		h.header.SetBytesV(key, value)
	}
}

// SetBytesKV is RequestHeader.SetBytesKV, but ignores Date.
func (h *ResponseHeader) SetBytesKV(key, value []byte) {
	if !isDate(key) {
		h.header.SetBytesKV(key, value)
	}
}

// Add is RequestHeader.Add, but ignores Date.
func (h *ResponseHeader) Add(key, value string) {
	if !isDate(key) {
		h.header.Add(key, value)
	}
}

// AddBytesK is RequestHeader.AddBytesK, but ignores Date.
func (h *ResponseHeader) AddBytesK(key []byte, value string) {
	if !isDate(key) {
		h.header.AddBytesK(key, value)
	}
}

// AddBytesV is RequestHeader.AddBytesV, but ignores Date.
func (h *ResponseHeader) AddBytesV(key string, value []byte) {
	if !isDate(key) {
		h.header.AddBytesV(key, value)
	}
}

// AddBytesKV is RequestHeader.AddBytesKV, but ignores Date.
func (h *ResponseHeader) AddBytesKV(key, value []byte) {
	if !isDate(key) {
		h.header.AddBytesKV(key, value)
	}
}

// SetCanonical is RequestHeader.SetCanonical, but ignores Date.
func (h *ResponseHeader) SetCanonical(key, value []byte) {
	if !isDate(key) {
		h.header.SetCanonical(key, value)
	}
}
