// Package compress measures what it costs to encode JSON and HTML by gzip, deflate, br and
// zstd: with the functions of ours and of fasthttp, with the handlers of both that
// compress, and with the compressors themselves.
package compress
