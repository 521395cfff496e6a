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
