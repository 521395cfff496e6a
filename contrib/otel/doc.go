// Package otel traces and measures servers and clients with OpenTelemetry, by its semantic
// conventions for HTTP. Import it as sluiceotel beside go.opentelemetry.io/otel.
//
//	server.Handler = sluiceotel.Handler(handle, sluiceotel.Options{})
//	client := sluiceotel.NewClient(&sluice.Client{}, sluiceotel.Options{})
//
// A handler's span is in Context(ctx). Requests that are sent with that context
// (client.DoContext) become its children, here and in the server that answers them.
package otel
