package http3

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// inputSize is how many bytes of a request are read at a time while it is small.
const inputSize = 4 << 10

// A scratch is the memory in which a Task reads a request up to its handler.
type scratch struct {
	decoder h3.Decoder
	head    fieldlist.Head
	in      [inputSize]byte
}

var scratchPool = sync.Pool{New: func() any { return &scratch{} }}

// encoderPool has Encoders, which keep the texts of the last length and the last date.
var encoderPool = sync.Pool{New: func() any { return &h3.Encoder{} }}

// requestPool has server.Requests. They are as large as all else of a request, so each worker uses
// the same one again, while it is in the processor's cache.
var requestPool sync.Pool

// exchangePool has exchanges without a request.
var exchangePool = sync.Pool{New: func() any { return &exchange{} }}

func acquireExchange() *exchange { return exchangePool.Get().(*exchange) }
