package sluice

import (
	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
)

// The setters of a response's fields ignore Date, because the server writes the
// current one, unless Date is announced as a trailer field. For other fields
// they are the setters of header.

// ignores tells whether key is Date, in any spelling, and not announced.
func ignores[T string | []byte](h *ResponseHeader, key T) bool {
	return ascii.EqualFold(key, HeaderDate) && !h.announces(field.Date)
}

// Set is RequestHeader.Set, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) Set(key, value string) {
	if !ignores(h, key) {
		h.header.Set(key, value)
	}
}

// SetBytesK is RequestHeader.SetBytesK, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) SetBytesK(key []byte, value string) {
	if !ignores(h, key) {
		h.header.SetBytesK(key, value)
	}
}

// SetBytesV is RequestHeader.SetBytesV, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) SetBytesV(key string, value []byte) {
	if !ignores(h, key) {
		h.header.SetBytesV(key, value)
	}
}

// SetBytesKV is RequestHeader.SetBytesKV, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) SetBytesKV(key, value []byte) {
	if !ignores(h, key) {
		h.header.SetBytesKV(key, value)
	}
}

// Add is RequestHeader.Add, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) Add(key, value string) {
	if !ignores(h, key) {
		h.header.Add(key, value)
	}
}

// AddBytesK is RequestHeader.AddBytesK, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) AddBytesK(key []byte, value string) {
	if !ignores(h, key) {
		h.header.AddBytesK(key, value)
	}
}

// AddBytesV is RequestHeader.AddBytesV, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) AddBytesV(key string, value []byte) {
	if !ignores(h, key) {
		h.header.AddBytesV(key, value)
	}
}

// AddBytesKV is RequestHeader.AddBytesKV, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) AddBytesKV(key, value []byte) {
	if !ignores(h, key) {
		h.header.AddBytesKV(key, value)
	}
}

// SetCanonical is RequestHeader.SetCanonical, but ignores Date
// unless Date is announced as a trailer field.
func (h *ResponseHeader) SetCanonical(key, value []byte) {
	if !ignores(h, key) {
		h.header.SetCanonical(key, value)
	}
}
