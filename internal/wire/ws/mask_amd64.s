#include "textflag.h"

// func maskSSE(p []byte, wide uint64) (seen uint64)
TEXT ·maskSSE(SB), NOSPLIT, $0-40
	MOVQ p_base+0(FP), AX
	MOVQ p_len+8(FP), CX
	MOVQ wide+24(FP), X0
	PUNPCKLQDQ X0, X0
	PXOR X5, X5

loop:
	MOVOU 0(AX), X1
	MOVOU 16(AX), X2
	MOVOU 32(AX), X3
	MOVOU 48(AX), X4
	PXOR X0, X1
	PXOR X0, X2
	PXOR X0, X3
	PXOR X0, X4
	MOVOU X1, 0(AX)
	MOVOU X2, 16(AX)
	MOVOU X3, 32(AX)
	MOVOU X4, 48(AX)
	POR X2, X1
	POR X4, X3
	POR X1, X5
	POR X3, X5
	ADDQ $64, AX
	SUBQ $64, CX
	JNZ loop
	MOVOU X5, X1
	PSRLDQ $8, X1
	POR X1, X5
	MOVQ X5, seen+32(FP)
	RET
