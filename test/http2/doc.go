// Package http2 tests HTTP/2 of servers as programs use it.
package http2
