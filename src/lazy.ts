/** Makes a value when it is first asked for, and keeps it. Some platforms allow no random numbers while a module is loaded. */
export function lazy<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
