package shared

const canSeal = canShare
