package fieldlist

// endOfString is the symbol EOS, whose code may only begin the padding (RFC 7541
// section 5.2).
const endOfString = 256

// huffmanLengths has the length of each symbol's code in bits (RFC 7541 appendix B).
// The codes follow from it: the shorter ones first, those of one length in the order
// of their symbols.
var huffmanLengths = [endOfString + 1]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
	30,
}

// huffmanCodes has the code of each symbol in the low bits, and its length in the
// bits from 32 on.
var huffmanCodes = func() (codes [endOfString + 1]uint64) {
	code := uint64(0)
	for length := uint8(1); length <= 30; length++ {
		code <<= 1
		for symbol, n := range huffmanLengths {
			if n == length {
				codes[symbol] = uint64(n)<<32 | code
				code++
			}
		}
	}
	return codes
}()

// A huffmanStep is what eight bits of a string mean. The low byte is a symbol and the
// bits from 8 on are the number of bits of its code that this step uses, 1 to 8. If
// that number is 0, the code continues, and the low byte is the node for its next
// eight bits; node 0 is none: the bits begin EOS.
type huffmanStep = uint16

// huffmanNodes is the number of nodes: the root, and one for each group of eight
// further bits of the longer codes.
const huffmanNodes = 15

// huffmanSteps is the decoding table: a step for each node and eight bits.
var huffmanSteps = func() (steps [huffmanNodes][256]huffmanStep) {
	last := 0
	for symbol, entry := range huffmanCodes[:endOfString] {
		code, length := entry&(1<<32-1), int(entry>>32)
		node := 0
		for ; length > 8; length -= 8 {
			next := &steps[node][code>>(length-8)&0xff]
			if *next == 0 {
				last++
				*next = huffmanStep(last)
			}
			node = int(*next)
		}
		free := 8 - length
		first := int(code<<free) & 0xff
		for i := range 1 << free {
			steps[node][first+i] = huffmanStep(length)<<8 | huffmanStep(symbol)
		}
	}
	return steps
}()

const (
	// huffmanBits is how many bits a huffmanPair stands for: two of the most frequent
	// symbols have at most 12.
	huffmanBits = 12
	// huffmanLongest is the length of the longest code, which is that of EOS.
	huffmanLongest = 30
)

// A huffmanPair is what the next huffmanBits bits of a string begin with: the first one or
// two symbols, in the low bytes; from bit 16 on the number of bits of their codes, and from
// bit 24 on their number. 0: the first code is longer.
type huffmanPair uint32

var huffmanPairs = func() (pairs [1 << huffmanBits]huffmanPair) {
	for i := range pairs {
		bits := uint64(i) << (64 - huffmanBits)
		symbol, used := firstSymbol(bits)
		if used == 0 || used > huffmanBits {
			continue
		}
		pairs[i] = huffmanPair(1<<24 | used<<16 | uint(symbol))
		if second, more := firstSymbol(bits << used); more > 0 && used+more <= huffmanBits {
			pairs[i] = huffmanPair(2<<24 | (used+more)<<16 | uint(second)<<8 | uint(symbol))
		}
	}
	return pairs
}()
