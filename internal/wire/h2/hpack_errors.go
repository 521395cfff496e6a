package h2

// Violations of RFC 7541. The compression state is unknown after them.
var (
	ErrIndex         = connectionError(CodeCompressionError, "index is not in the tables")
	ErrInteger       = connectionError(CodeCompressionError, "integer is too large")
	ErrHuffman       = connectionError(CodeCompressionError, "invalid Huffman code")
	ErrSizeUpdate    = connectionError(CodeCompressionError, "table size exceeds the limit")
	ErrSizeUpdateAt  = connectionError(CodeCompressionError, "table size update at the wrong place")
	ErrNoSizeUpdate  = connectionError(CodeCompressionError, "table size update is missing")
	ErrTruncated     = connectionError(CodeCompressionError, "field block ends early")
	ErrPackedDecoder = connectionError(CodeInternalError, "invalid packed decoder")
	ErrPackedEncoder = connectionError(CodeInternalError, "invalid packed encoder")
)

// Violations of RFC 9113 sections 8.1 to 8.3 and 8.5 by a single field.
var (
	ErrFieldName      = streamError(CodeProtocolError, "field name is not a token in lower case")
	ErrFieldValue     = streamError(CodeProtocolError, "invalid field value")
	ErrConnectionOnly = streamError(CodeProtocolError, "field that concerns only a connection")
	ErrTE             = streamError(CodeProtocolError, "TE is not trailers")
	ErrPseudoUnknown  = streamError(CodeProtocolError, "unknown pseudo-field")
	ErrMethod         = streamError(CodeProtocolError, "method is not a token")
	ErrScheme         = streamError(CodeProtocolError, "invalid scheme")
	ErrPath           = streamError(CodeProtocolError, "invalid path")
	ErrAuthority      = streamError(CodeProtocolError, "invalid authority")
	ErrStatus         = streamError(CodeProtocolError, "invalid status")
	ErrProtocol       = streamError(CodeProtocolError, "invalid protocol")
)

// Violations of the same sections by a list of fields.
var (
	ErrPseudoOrder     = streamError(CodeProtocolError, "pseudo-field after a field")
	ErrPseudoRepeated  = streamError(CodeProtocolError, "repeated pseudo-field")
	ErrPseudoForbidden = streamError(CodeProtocolError, "pseudo-field that this message may not have")
	ErrPseudoMissing   = streamError(CodeProtocolError, "pseudo-field is missing")
	ErrNoAuthority     = streamError(CodeProtocolError, "neither authority nor host")
	ErrHostDisagrees   = streamError(CodeProtocolError, "authority and host disagree")
	ErrLength          = streamError(CodeProtocolError, "invalid or repeated content-length")
)
