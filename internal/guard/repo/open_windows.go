package repo

const openFlags = 0
