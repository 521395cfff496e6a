package sluice

import (
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/client/pipeline"
	"github.com/sluicehttp/sluice/internal/message"
)

const (
	// DefaultMaxPendingRequests is the default of
	// PipelineClient.MaxPendingRequests.
	DefaultMaxPendingRequests = 1024

	// DefaultLBClientTimeout is the default of LBClient.Timeout.
	DefaultLBClientTimeout = time.Second
)

// Errors of PipelineClient and LBClient.
var (
	// ErrPipelineOverflow is returned by PipelineClient for a request that was
	// not sent because the queue is full: a newer request took its place, or none
	// of the requests there could be displaced. Raise MaxPendingRequests or
	// MaxConns, or send fewer requests.
	ErrPipelineOverflow = pipeline.ErrOverflow
	// ErrNoAvailableClients is returned by LBClient when it has no clients.
	ErrNoAvailableClients = errors.New("sluice: the LBClient has no clients")

	errPipelineClosed = message.Known(ErrConnectionClosed, io.EOF)
	errPlainHTTPS     = errors.New("sluice: a request with the scheme https must not be sent without TLS")
)
