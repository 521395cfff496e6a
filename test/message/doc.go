// Package message tests requests, responses, headers, URIs, arguments and cookies as programs
// use them.
package message
