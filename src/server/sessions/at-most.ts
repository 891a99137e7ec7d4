/** What comes of `work`, or of `late` where that takes longer than so many seconds; it goes on all the same. */
export async function atMost<Value>(limit: number, work: Promise<Value>, late: () => Value): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<Value>((resolve) => {
    timer = setTimeout(() => resolve(late()), limit * 1000);
    timer.unref();
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}
